"""Scenarios: written starting positions with a task, a horizon and a score, for tests of a player and for training."""
