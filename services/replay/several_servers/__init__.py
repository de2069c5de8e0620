"""One replay buffer over several Redis servers."""
