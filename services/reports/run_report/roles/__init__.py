"""How each role did in its last episodes."""
