"""Prompts: a position as text, for policies trained on compact notation and for general chat models."""
