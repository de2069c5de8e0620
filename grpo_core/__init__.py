"""The mathematics of training: episodes, groups, advantages, losses and the learner. No Ray, Redis, vLLM or diplomacy."""
