"""The mathematics: episodes, groups, advantages, losses and the learner. No Ray, Redis, vLLM or diplomacy here."""
