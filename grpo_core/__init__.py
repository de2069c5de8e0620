"""The mathematics of training: episodes, groups, advantages, losses, the learner. No Ray, Redis, vLLM or diplomacy.

Every process that computes imports this package, so MKL is configured here: equal inputs then give equal bits.
"""

from grpo_core.reproducible import make_reproducible

make_reproducible()
