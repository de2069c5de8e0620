"""A bot that chooses among order sheets by games that it plays on in its head."""
