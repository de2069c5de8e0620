"""Settings of the whole test suite."""

import gc
import os
import socketserver

import pytest
from hypothesis import settings

# Tests with more threads than cores: a thread that waits leaves its core to the others. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Ray's workers would starve beside any other busy program (``local_ray``).
os.environ.setdefault("RAY_worker_niceness", "0")

# Tests fetch nothing from the Hub; the one that does serves it itself.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import grpo_core  # noqa: F401  (first: what it tells MKL has to be said before anything is multiplied)

# Machines are shared, so no property test fails for being slow. Examples cost time in every run of the suite: a test
# that needs more than these asks for them.
settings.register_profile("entente", deadline=None, max_examples=40)
settings.register_profile("soak", deadline=None, max_examples=500)
settings.load_profile("entente")

# Servers of the standard library notice every half second that they are to stop.
socketserver.BaseServer.serve_forever.__defaults__ = (0.02,)

# What is imported is never garbage: looking through it again and again took a fifth of the time of collecting tests.
gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Collect garbage again, but not among the modules and the collected tests."""
    gc.freeze()
    gc.enable()
