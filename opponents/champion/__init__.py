"""The champion: a trained policy that comes with the package, and that players and starts of runs name ``champion``.

``python -m cluster.export.champion FOLDER`` replaces it by an exported policy.
"""
