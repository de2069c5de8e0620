"""Games that measure: evaluation, rating matches and single games between any players."""
