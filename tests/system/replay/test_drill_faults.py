"""The drill's faults of the replay server's contents: what they leave, the learner's buffer sets aside."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.drill.replay_client import ReplayClient
from services.replay.buffer import NAMELESS, BlocksMissingError
from services.replay.server.embedded import EmbeddedServer
from tests.system.support.replay_blocks import block, episode, ids

pytestmark = pytest.mark.system


@pytest.fixture
def client(server: EmbeddedServer, run: str) -> Iterator[ReplayClient]:
    with ReplayClient(server.url, run) as opened:
        yield opened


def test_a_damaged_episode_and_a_damaged_block_are_set_aside(
    server: EmbeddedServer, connect: Any, run: str, client: ReplayClient
) -> None:
    learner, rng = connect(server.url, run), random.Random(0)
    learner.append([*block("a"), episode("b", 0)])
    assert ids(learner.take({"FRANCE": 1}, 0)) == ["a/0", "a/1"]
    assert client.damage_episode(rng) == []  # the learner has read all
    learner.append([*block("c"), *block("i", "ITALY"), episode("b", 1)])
    damaged = client.damage_block(rng, 2)
    assert damaged in (["c/0", "c/1"], ["i/0", "i/1"])
    other = {"c": "i", "i": "c"}[damaged[0][0]]
    assert client.damage_block(rng, 2) == [f"{other}/0", f"{other}/1"]
    assert client.damage_episode(rng)
    delivery = learner.take({"FRANCE": 1}, 0)
    assert "b/0" in ids(delivery)
    with pytest.raises(BlocksMissingError, match="lacks 1"):
        learner.take({"ITALY": 1}, 0)
    assert client.counters()["poison"] == learner.stats()["poison"]
    assert {*damaged, f"{other}/0", f"{other}/1"} <= set(client.poison())
    assert client.stored() >= {*client.poison(), *client.waiting()}


def test_foreign_values_an_oversized_entry_and_one_of_a_later_version_are_set_aside(
    server: EmbeddedServer, connect: Any, run: str, client: ReplayClient
) -> None:
    learner, rng = connect(server.url, run), random.Random(0)
    learner.append([*block("a"), *block("b")])
    learner.take({"FRANCE": 1}, 0)
    names = {
        client.write_foreign_values(rng),
        client.append_later_version(rng),
        client.append_oversized(rng, 70_000_000),
    }
    powers = sorted(client._roles())
    learner.take({"FRANCE": 1}, 0)
    with pytest.raises(BlocksMissingError, match="lacks 1"):
        learner.take({**dict.fromkeys(powers, 0), "TURKEY": 1}, 0)
    learner.redeliver()
    assert set(client.poison()) == names
    assert client.counters()["poison"] == 3
    unreadable = {name for power in powers for name in learner.unreadable_ids(power)}
    assert sum(name.startswith(NAMELESS) for name in unreadable) == 1
    assert names - unreadable == {name for name in names if "xff" in name}
