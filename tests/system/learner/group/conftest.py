"""One Ray for all tests of a learner of several processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster.runtime.local_ray import local_ray, prepare_local_ray

prepare_local_ray()


@pytest.fixture(scope="session")
def own_ray() -> Iterator[None]:
    with local_ray(2, print):
        yield
