"""Ratings of players by country, with joint uncertainty and fixed anchors."""
