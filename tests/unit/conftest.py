"""Settings of the fast tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _without_fsync() -> Iterator[None]:
    """Processes may die in these tests, but never the machine; waiting for the disk took a tenth of their time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("os.fsync", lambda _: None)
        yield
