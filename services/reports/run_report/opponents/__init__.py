"""Whom the learner played, and how it is rated against them."""
