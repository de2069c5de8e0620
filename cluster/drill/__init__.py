"""A training with injected faults, after which every episode's fate is checked."""
