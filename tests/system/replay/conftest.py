"""Redis servers and buffers for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services.replay.redis_store.buffer import RedisBuffer
from services.replay.server.embedded import EmbeddedServer
from tests.system.support.replay_blocks import runs


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start(tmp_path_factory.mktemp("redis")) as started:
        yield started


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server for tests that change its settings or stop it."""
    with EmbeddedServer.start(tmp_path / "redis") as started:
        yield started


@pytest.fixture
def connect() -> Iterator[Callable[..., RedisBuffer]]:
    """A function that makes buffers, which are closed after the test."""
    made: list[RedisBuffer] = []

    def make(
        url: str,
        run: str,
        group_timeout_s: float = 600,
        connect_timeout_s: float = 5,
        answer_timeout_s: float | None = None,
    ) -> RedisBuffer:
        made.append(RedisBuffer(url, run, group_timeout_s, connect_timeout_s, answer_timeout_s=answer_timeout_s))
        return made[-1]

    yield make
    for buffer in made:
        buffer.close()


@pytest.fixture
def run() -> str:
    return next(runs)
