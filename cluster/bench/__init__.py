"""``entente bench``: every figure with its yardstick, measured in the same run."""
