"""The versioned population of opponents: its file, its mirror in Redis, imports and weights."""
