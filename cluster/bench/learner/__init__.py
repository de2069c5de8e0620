"""Benchmarks of the learner."""
