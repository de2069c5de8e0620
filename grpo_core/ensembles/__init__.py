"""Several agents together: how alike their states are, and one text that all of them write."""
