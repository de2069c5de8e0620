"""The page of a ladder: ratings with intervals, how games ended, and every figure beside published ones."""
