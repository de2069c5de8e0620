"""Rewards of a completion: named components from 0 to 1, and weighted mixtures of them."""
