"""``entente conduct`` and ``entente listen``: what players said, promised and did in saved games."""
