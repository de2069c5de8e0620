"""Bots that write and answer letters; their orders are another bot's, changed by what they have promised."""
