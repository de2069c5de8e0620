"""RLlib's PPO on the same tasks: their environments as RLlib takes them, and its training loop."""
