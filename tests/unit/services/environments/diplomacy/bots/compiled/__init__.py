"""Machine code against the engine and against the bots in Python."""
