"""From episodes to advantages: groups, baselines, weights and what the groups explain."""
