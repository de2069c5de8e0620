"""Settings of the whole test suite."""

from hypothesis import settings

# Machines are shared and drift: no property fails for having been slow.
settings.register_profile("entente", deadline=None)
settings.load_profile("entente")
