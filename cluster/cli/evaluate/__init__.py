"""``entente evaluate`` and ``entente compare-players``."""
