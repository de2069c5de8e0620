"""One buffer over two servers keeps the promises of one server's buffer."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.runtime.replay.clients import replay_buffer
from services.replay.buffer import BlocksMissingError, ReplayBuffer, ReplayError, ServerLostError
from services.replay.redis_store.buffer import RedisBuffer
from services.replay.server.embedded import EmbeddedServer
from services.replay.several_servers.buffer import SeveralServersBuffer
from services.settings import RedisSettings
from tests.system.support.replay_blocks import block, ids

pytestmark = pytest.mark.system

ROLES = ("FRANCE", "ITALY")  # on the first and on the second server


@pytest.fixture
def second(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start(tmp_path / "second") as started:
        yield started


def joined(connect: Callable[..., RedisBuffer], run: str, *urls: str, timeout_s: float = 5) -> SeveralServersBuffer:
    return SeveralServersBuffer([connect(url, run, connect_timeout_s=timeout_s) for url in urls], ROLES)


def test_streams_are_split_by_role_and_a_delivery_is_from_all_servers_or_none(
    own_server: EmbeddedServer, second: EmbeddedServer, connect: Callable[..., RedisBuffer], run: str
) -> None:
    rollout: ReplayBuffer = joined(connect, run, own_server.url, second.url)
    learner = joined(connect, run, own_server.url, second.url)
    assert rollout.append([*block("f"), *block("i", "ITALY")[:1]]) == 3
    with pytest.raises(BlocksMissingError, match="ITALY lacks 1 block") as error:
        learner.take({"ITALY": 1, "FRANCE": 1}, 0.1)
    assert error.value.missing == {"ITALY": 1}
    assert rollout.append([*block("i", "ITALY"), *block("f")]) == 1  # the others are duplicates
    delivery = learner.take({"ITALY": 1, "FRANCE": 1}, 5)
    assert ids(delivery) == ["i/0", "i/1", "f/0", "f/1"]
    assert (learner.stats()["delivered"], learner.stats()["duplicates"]) == (4, 3)
    assert connect(own_server.url, run).stored_ids(["f/0", "i/0"]) == {"f/0"}
    learner.redeliver()
    assert ids(learner.take(dict.fromkeys(ROLES, 1), 5)) == ["f/0", "f/1", "i/0", "i/1"]
    learner.acknowledge(delivery.receipts)
    assert learner.stats()["acknowledged"] == 4
    assert rollout.stored_ids(["f/0", "i/0", "x/0"]) == {"f/0", "i/0"}


def test_servers_in_another_order_are_refused(own_server: EmbeddedServer, second: EmbeddedServer, run: str) -> None:
    settings, urls = RedisSettings(), (own_server.url, second.url)
    for _ in range(2):
        replay_buffer(settings, urls, ROLES, run).close()
    with pytest.raises(ReplayError, match=r"is named as server 1 of 2 of this run and has been server '2 of 2'"):
        replay_buffer(settings, urls[::-1], ROLES, run)
    replay_buffer(settings, urls[::-1], ROLES, f"another-{run}").close()


def test_a_lost_server_is_named_and_its_episodes_come_back_from_its_file(
    own_server: EmbeddedServer, tmp_path: Path, connect: Callable[..., RedisBuffer], run: str
) -> None:
    lost = EmbeddedServer.start(tmp_path / "lost", password="secret")
    learner = joined(connect, run, own_server.url, lost.url, timeout_s=0.5)
    learner.append([*block("f"), *block("i", "ITALY")])
    learner.redeliver()
    os.kill(lost.pid, signal.SIGKILL)
    with pytest.raises(ServerLostError, match=f"127.0.0.1:{lost.port}"):
        learner.take(dict.fromkeys(ROLES, 1), 1)
    lost.close()
    with EmbeddedServer.start(tmp_path / "lost", port=lost.port, password="secret"):
        assert ids(learner.take(dict.fromkeys(ROLES, 1), 5)) == ["f/0", "f/1", "i/0", "i/1"]  # none lost, none twice
        learner.close()
