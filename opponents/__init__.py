"""Opponents: policies, bots, the versioned population, ratings, matchmaking, the league, and playing a game."""
