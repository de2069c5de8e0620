"""Composition, and the only home of Ray: actors, the training page, the command line and configs."""
