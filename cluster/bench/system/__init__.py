"""Benchmarks of games, replay, weights and the whole control plane."""
