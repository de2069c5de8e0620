"""The page of a comparison of methods."""
