"""Benchmarks of the engines."""
