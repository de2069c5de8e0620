"""What came of letters: promises and conduct in games that are over."""
