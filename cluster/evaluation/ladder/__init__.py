"""A ladder of players: measured against one anchor, rated at tables that they share, beside published figures."""
