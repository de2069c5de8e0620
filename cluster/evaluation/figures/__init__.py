"""What played tables say: rows of measures with intervals, differences of players, and when enough is known."""
