"""``entente play``, ``replay`` and ``scenarios``: single games."""
