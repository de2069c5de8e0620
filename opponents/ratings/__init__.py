"""Ratings of players by role, with joint uncertainty and fixed anchors."""
