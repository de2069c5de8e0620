"""``entente groups``: which episodes were compared, and what grouping is worth."""
