"""Diplomacy without convoys as machine code: two bots play on from a position many times as fast as in Python."""
