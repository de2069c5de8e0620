"""The page that shows a run: learning curves, losses, groups and throughput."""
