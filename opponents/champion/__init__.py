"""The champion, which comes with the package: a trained policy, with simulated games when it plays as ``champion``.

``python -m cluster.export.champion FOLDER`` replaces it by an exported policy.
"""
