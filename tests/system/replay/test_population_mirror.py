"""The population on a real Redis-protocol server: newer states replace older ones, weights are verified and limited."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import redis
from safetensors.numpy import save_file

from opponents.population import redis_mirror
from opponents.population.member import PopulationError
from opponents.population.population import Population
from opponents.population.redis_mirror import PopulationMirror, frozen_weights
from services.replay.buffer import ReplayError
from services.replay.server.embedded import EmbeddedServer

pytestmark = pytest.mark.system

WRITERS, MEMBERS = 4, 10
runs = (f"run-{number}" for number in count())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start(tmp_path_factory.mktemp("redis")) as started:
        yield started


@pytest.fixture
def run() -> str:
    return next(runs)


@pytest.fixture
def mirror(server: EmbeddedServer, run: str) -> Iterator[PopulationMirror]:
    made = mirror_of(server.url, run)
    yield made
    made.close()


def mirror_of(url: str, run: str, limit_mib: int = 1) -> PopulationMirror:
    return PopulationMirror(url, run, connect_timeout_s=20, limit_mib=limit_mib)


def weights(folder: Path, name: str, value: float, kib: int = 4) -> Path:
    path = folder / f"{name}.safetensors"
    save_file({"w": np.full(256 * kib, value, np.float32)}, path)
    return path


def kept(server: EmbeddedServer, run: str) -> int:
    client = redis.Redis.from_url(server.url)
    try:
        return int(client.hlen(f"entente:{run}:population:weights"))
    finally:
        client.close()


def write(path: str, url: str, run: str, writer: int) -> None:
    mirror = mirror_of(url, run)
    population = Population(Path(path), on_saved=mirror.publish)
    for number in range(MEMBERS):
        with population.transaction() as newest:
            newest.add_bot(f"{writer}-{number}")
    mirror.close()


def test_members_added_by_four_processes_are_in_the_newest_revision(
    server: EmbeddedServer, mirror: PopulationMirror, run: str, tmp_path: Path
) -> None:
    path = tmp_path / "population.json"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write, args=(str(path), server.url, run, writer)) for writer in range(WRITERS)]
    for process in writers:
        process.start()
    for process in writers:
        process.join(50)
        if process.exitcode is None:
            process.kill()
    assert [process.exitcode for process in writers] == [0] * WRITERS
    document = mirror.read()
    assert document is not None
    assert document == Population.load(path).document()
    assert document.revision == len(document.members) == WRITERS * MEMBERS


def test_older_revision_changes_nothing_until_a_new_training(mirror: PopulationMirror, tmp_path: Path) -> None:
    assert mirror.read() is None
    states = []
    population = Population(tmp_path / "population.json")
    for name, version in (("a", 1), ("b", 2)):
        with population.transaction():
            population.add_snapshot(weights(tmp_path, name, version), version=version)
        states.append(population.document())
    assert mirror.publish(states[1], population.path)
    assert not mirror.publish(states[0], population.path)
    assert mirror.read() == states[1]
    assert all(mirror.weights(member) is not None for member in states[1].members)  # the older state needs one less
    assert mirror.publish(states[1], population.path)
    mirror.clear()
    assert mirror.read() is None
    assert mirror.publish(states[0], population.path)
    assert mirror.read() == states[0]


def test_machine_without_the_folder_reads_the_same_verified_weights(
    server: EmbeddedServer, mirror: PopulationMirror, run: str, tmp_path: Path
) -> None:
    population = Population(tmp_path / "population.json", on_saved=mirror.publish)
    path = weights(tmp_path, "v1", 1)
    with population.transaction():
        member = population.add_snapshot(path, version=1)
    data = path.read_bytes()
    elsewhere = tmp_path / "not" / "here" / "population.json"
    assert frozen_weights(member, population.path, None) == data
    assert frozen_weights(member, elsewhere, mirror) == data
    with pytest.raises(PopulationError, match=r"policy/v1: this machine does not see its weights .* opponents\.mirror"):
        frozen_weights(member, elsewhere, None)
    path.write_bytes(b"damaged")
    with pytest.raises(PopulationError, match=r"policy/v1: .*v1\.safetensors has SHA-256"):
        frozen_weights(member, population.path, mirror)  # the file has priority: its damage raises
    client = redis.Redis.from_url(server.url)
    client.hset(f"entente:{run}:population:weights", member.checksum, b"others")
    client.hset(f"entente:{run}:population", "document", b'{"schema": 2}')
    client.close()
    with pytest.raises(PopulationError, match=r"policy/v1: the copy at redis://:\*\*\*@.* has SHA-256"):
        frozen_weights(member, elsewhere, mirror)
    with pytest.raises(PopulationError, match=r"the population at redis://:\*\*\*@.* is not a population"):
        mirror.read()


def test_mirrored_weights_stay_within_their_limit_with_pinned_and_newest_first(
    server: EmbeddedServer, mirror: PopulationMirror, run: str, tmp_path: Path
) -> None:
    population = Population(tmp_path / "population.json", on_saved=mirror.publish)
    with population.transaction():
        for version in range(1, 6):
            population.add_snapshot(weights(tmp_path, f"v{version}", version, kib=300), version=version)
        population.pin("policy/v1")
    three = {"policy/v1", "policy/v4", "policy/v5"}  # of 300 KiB each, in 1 MiB
    assert {member.id for member in population.members if mirror.weights(member)} == three
    (tmp_path / "v4.safetensors").unlink()  # what is kept stays
    assert mirror.publish(population.document(), population.path)
    assert {member.id for member in population.members if mirror.weights(member)} == three
    with population.transaction():
        population.retire("policy/v5")
        population._change("policy/v4", weight=0.0)
    # Those that may be drawn have the room, and a block against those that may not is perhaps being played.
    assert {m.id for m in population.members if mirror.weights(m)} == {"policy/v1", "policy/v2", "policy/v3"}
    with population.transaction():
        population.retire("policy/v2")
        population.retire("policy/v3")
    assert {m.id for m in population.members if mirror.weights(m)} == {"policy/v1", "policy/v2", "policy/v3"}
    without = mirror_of(server.url, run, limit_mib=0)
    assert without.publish(population.document(), population.path)
    without.close()
    assert kept(server, run) == 0


def test_policy_with_a_damaged_file_is_skipped_with_a_warning(
    mirror: PopulationMirror, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    population = Population(tmp_path / "population.json")
    path = weights(tmp_path, "v1", 1)
    with population.transaction():
        member = population.add_snapshot(path, version=1)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with caplog.at_level(logging.WARNING):
        assert mirror.publish(population.document(), population.path)
    assert "policy/v1" in caplog.text
    assert "not mirrored" in caplog.text
    assert mirror.weights(member) is None


def test_unreachable_server_raises_one_line(tmp_path: Path) -> None:
    gone = PopulationMirror("redis://127.0.0.1:1/0", "run", connect_timeout_s=0.2, limit_mib=1)
    with pytest.raises(ReplayError, match="no Redis server answers"):
        gone.publish(Population(tmp_path / "population.json").document(), tmp_path / "population.json")
    gone.close()


def test_foreign_values_are_replaced_or_refused_in_one_line(
    server: EmbeddedServer, mirror: PopulationMirror, run: str, tmp_path: Path
) -> None:
    client = redis.Redis.from_url(server.url)
    key, kept_weights = f"entente:{run}:population", f"entente:{run}:population:weights"
    population = Population(tmp_path / "population.json", on_saved=mirror.publish)
    client.hset(kept_weights, mapping={b"\xff\xfe": b"x", b"": b"", b"\x1b[31m": b"y"})
    for revision in (b"\xff", b"many", b"1e999", b"9" * 5_000, b"-inf", b""):
        client.hset(key, mapping={"revision": revision, "document": b"\xff"})
        with population.transaction():
            population.add_bot(f"bot-{population.revision}")
        assert mirror.read() == population.document()
    with population.transaction():
        member = population.add_snapshot(weights(tmp_path, "v1", 1), version=1)
    assert kept(server, run) == 1
    elsewhere = tmp_path / "not" / "here" / "population.json"
    large = b"\x1b" * 2_000_000
    client.hset(kept_weights, member.checksum, large)
    for document in (b"\xff\xfe", b"[" * 100_000, b'{"schema": 2, "members": "' + large + b'"}', bytes(70_000_000)):
        client.hset(key, "document", document)
        with pytest.raises(PopulationError) as raised:
            mirror.read()
        assert str(raised.value).isprintable()
        assert len(str(raised.value)) < 500
    with pytest.raises(PopulationError, match=r"has 2,000,000 bytes there, more than .* HDEL entente:"):
        frozen_weights(member, elsewhere, mirror)
    client.delete(key, kept_weights)
    client.set(key, "x")
    client.set(kept_weights, "x")
    for attempt in (mirror.read, lambda: mirror.publish(population.document(), population.path)):
        with pytest.raises(ReplayError, match="not of the type that a run makes"):
            attempt()
    client.close()


def test_a_flood_of_foreign_weights_is_not_read_and_changes_nothing(
    server: EmbeddedServer, mirror: PopulationMirror, run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_mirror, "MAX_FIELDS", 50)
    client = redis.Redis.from_url(server.url)
    client.hset(f"entente:{run}:population:weights", mapping={str(number): b"x" for number in range(200)})
    population = Population(tmp_path / "population.json", on_saved=mirror.publish)
    for version in range(1, 4):  # a limit of 1 MiB has room for two of them
        with population.transaction():
            population.add_snapshot(weights(tmp_path, f"v{version}", version, kib=400), version=version)
    found = [mirror.weights(population[f"policy/v{version}"]) is not None for version in range(1, 4)]
    assert found == [False, True, True]
    assert kept(server, run) == 202
    client.delete(f"entente:{run}:population:weights")
    mirror.publish(population.document(), population.path)
    assert kept(server, run) == 2
    client.close()
