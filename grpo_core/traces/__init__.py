"""What an update saw and did, kept so that a page can show and recompute it."""
