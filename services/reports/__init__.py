"""Self-contained HTML: a run's learning curves and a game phase by phase."""
