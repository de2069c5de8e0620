"""``entente evaluate``, ``entente compare-players`` and ``entente ladder``."""
