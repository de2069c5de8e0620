"""One Ray for the tests of a file; other files of the same process start their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster.runtime.local_ray import local_ray, prepare_local_ray

prepare_local_ray()


@pytest.fixture(scope="module")
def own_ray() -> Iterator[None]:
    with local_ray(2, print):
        yield
