"""Settings of the whole test suite."""

from hypothesis import settings

import grpo_core  # noqa: F401  (first: what it tells MKL has to be said before anything is multiplied)

# Machines are shared and drift: no property fails for having been slow.
settings.register_profile("entente", deadline=None)
settings.load_profile("entente")
