"""The faults of a drill: a file for each thing that fails, and ``table`` with all kinds."""
