"""Policy losses, KL estimates, importance ratios and the alignment of representations."""
