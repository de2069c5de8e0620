"""Seven-power Diplomacy over the ``diplomacy`` engine: positions, notation, legal orders, scoring, rewards."""
