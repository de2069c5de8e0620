"""The replay servers of a run: which they are, what watches them, and the clients of the run's processes."""
