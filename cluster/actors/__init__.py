"""Ray actors: rollouts and the learner."""
