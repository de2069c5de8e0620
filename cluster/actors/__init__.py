"""The Ray actors, learner and rollout, and the messages they exchange with the driver."""
