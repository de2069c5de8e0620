"""Behaviour cloning of bots and saved games by several processes."""
