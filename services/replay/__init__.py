"""The replay buffer: episodes on their way from rollouts to the learner, each used exactly once."""
