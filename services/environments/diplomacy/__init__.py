"""Seven-power Diplomacy over the ``diplomacy`` engine: positions, notation, orders, scoring, rewards."""
