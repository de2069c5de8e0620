"""A training with injected faults, after which every episode must be accounted for."""
