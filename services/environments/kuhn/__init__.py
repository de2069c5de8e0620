"""Kuhn poker for three: a small world with hidden cards, to learn from and to copy."""
