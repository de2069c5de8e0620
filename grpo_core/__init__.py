"""The mathematics of training: episodes, groups, advantages, losses, the learner. No Ray, Redis, vLLM or diplomacy."""
