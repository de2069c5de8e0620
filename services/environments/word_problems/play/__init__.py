"""Word problems as games: one question, or a few in a row, to one policy."""
