"""A bot that chooses among order sheets by simulated games."""
