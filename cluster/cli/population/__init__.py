"""``entente population``: the members of a run's population."""
