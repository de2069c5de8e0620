"""Entries of the replay streams: structure, values, frame or fields changed, read by a learner from a real server.

The run's own block, stored around the changed entry, must be delivered whole and once, whatever the entry is.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import redis
import zstandard

from cluster.actors.batch_collector import BatchCollector
from cluster.actors.episode_check import EpisodeCheck
from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from grpo_core.learner import Learner
from grpo_core.models.pretrained import make_small_model
from grpo_core.types import Batch, Episode, Turn
from services.replay.buffer import BlocksMissingError, Receipt
from services.replay.codec import encode
from services.replay.redis_store.buffer import RedisBuffer
from services.replay.server.embedded import EmbeddedServer
from services.replay.synthetic_episodes import synthetic_episode
from tests.fuzz.contract import Case, Kind

ROLE = "FRANCE"
VOCABULARY = 160
LARGEST_ENTRY = 1 << 20  # bytes that the learner reads
CONFIG = load_config(
    "smoke",
    [
        *("policy.hidden_size=32", "policy.layers=1", "policy.intermediate_size=32", "learner.minibatches=1"),
        *("rollout.num_generations=2", "grouping.keys=['country+lineup','country']", "learner.returns=episode"),
    ],
)
VALUES: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 2**31, 2**63, 2**64 - 1, -(2**63), 1e308, -1e308, math.nan, math.inf, 1e-320),
    *("", "x", "\0", "\x1b[31m", "a\nb", "\u202e", "x" * 100_000, "FRANCE", "ITALY", "b0/0", "a/0", "../../x"),
    *(b"", b"\xff\xfe", bytes(100_000), [], {}, [[[[1]]]], list(range(3000)), {"a": {"b": [1]}}, {1: 2}),
    {str(key): key for key in range(3000)},
)


@dataclass
class Shared:
    """What all cases of a process use: a server, the learner's check, and a learner."""

    server: EmbeddedServer
    raw: redis.Redis
    check: EpisodeCheck
    learner: Learner
    numbers: Iterator[int] = field(default_factory=itertools.count)


@dataclass(frozen=True)
class Entry:
    """A changed entry, and the stream that it goes to."""

    fields: list[tuple[bytes, bytes]]
    role: str = ROLE
    entry_id: str = "*"
    times: int = 1
    is_own: bool = False  # an episode with the id of the run's first one, which may stand for it or beside it


def good_episode(block: str, member: int) -> Episode:
    """An episode that the learner can use: its sampled tokens are admissible."""
    episode = synthetic_episode(block, member, role=ROLE, block_size=2, turns=2, prompt_tokens=12, completion_tokens=12)
    return dataclasses.replace(episode, turns=tuple(map(_admissible, episode.turns)))


def _admissible(turn: Turn) -> Turn:
    sampled = turn.completion_ids[turn.trained_mask]
    return dataclasses.replace(
        turn,
        admissible_ids=np.stack([sampled, np.full_like(sampled, VOCABULARY - 1)], axis=1).reshape(-1),
        admissible_offsets=np.arange(0, 2 * len(sampled) + 1, 2, dtype=np.int32),
    )


def frame(record: bytes, version: int = 1, *, size: bool = True) -> bytes:
    compressor = zstandard.ZstdCompressor(level=1, write_checksum=True, write_content_size=size)
    return b"ENT" + bytes([version]) + compressor.compress(record)


def fields_of(data: bytes, name: bytes = b"x/0") -> list[tuple[bytes, bytes]]:
    return [(b"id", name), (b"episode", data)]


def record_of(episode: Episode) -> list[Any]:
    """The fields of an episode's record, its turns and columns included."""
    found: list[Any] = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(encode(episode)[4:]))
    return found


def changed_record(rng: random.Random) -> tuple[str, Entry]:
    """One or two values anywhere in the record are others, gone, or more."""
    record = record_of(good_episode("x", 0))
    names = []
    for _ in range(rng.choice((1, 1, 2))):
        parent, path = record, [rng.randrange(len(record))] if record else []
        while path and isinstance(parent[path[-1]], list) and parent[path[-1]] and rng.random() < 0.8:
            parent = parent[path[-1]]
            path.append(rng.randrange(len(parent)))
        if not path:
            break
        at, how = path[-1], rng.random()
        if how < 0.8:
            value = rng.choice(VALUES)
            parent[at] = value
            names.append(f"{path} is {repr(value)[:30]}")
        elif how < 0.9:
            del parent[at]
            names.append(f"{path} removed")
        else:
            parent[at:at] = [parent[at]] * rng.choice((1, 1, 500))
            names.append(f"{path} repeated")
    return "; ".join(names), Entry(fields_of(frame(_packed(record))))


def _packed(record: Any) -> bytes:
    try:
        return msgspec.msgpack.encode(record)
    except (OverflowError, TypeError, ValueError):
        return b"\xc0"


def changed_column(rng: random.Random) -> tuple[str, Entry]:
    """A column of arrays has another width, length or content."""
    record = record_of(good_episode("x", 0))
    at = rng.randrange(11, 17)
    width, data = record[at]
    how = rng.choice(("width", "cut", "more", "noise", "ones", "zeros"))
    changes = {
        "width": [rng.choice((0, 1, 2, 3, 4, 8, -1, 2**40)), data],
        "cut": [width, data[: rng.randrange(len(data) + 1)]],
        "more": [width, data + bytes(rng.randrange(1, 9))],
        "noise": [width, rng.randbytes(len(data))],
        "ones": [width, b"\xff" * len(data)],
        "zeros": [width, bytes(len(data))],
    }
    record[at] = changes[how]
    return f"column {at}: {how}", Entry(fields_of(frame(_packed(record))))


def changed_episode(rng: random.Random) -> tuple[str, Entry]:
    """An episode that the codec writes, but that no game of the run yields."""
    good = good_episode("x", 0)
    turn = good.turns[0]
    name, changed = rng.choice(
        [
            ("large tokens", {"turns": (dataclasses.replace(turn, prompt_ids=np.array([2**31 - 1], np.int32)),)}),
            ("no tokens", {"turns": (dataclasses.replace(turn, prompt_ids=np.zeros(0, np.int32)),)}),
            ("no turns", {"turns": ()}),
            ("many turns", {"turns": good.turns * 100}),
            ("a long prompt", {"turns": (dataclasses.replace(turn, prompt_ids=np.full(10**5, 3, np.int32)),)}),
            ("a cold turn", {"turns": (dataclasses.replace(turn, temperature=1e-300),)}),
            ("a late version", {"turns": (dataclasses.replace(turn, policy_version=2**62),)}),
            ("sure tokens", {"turns": (dataclasses.replace(turn, logprobs=turn.logprobs * 0 - 3e38),)}),
            ("no facts", {"keys": {}}),
            ("a number for a fact", {"keys": {**good.keys, "lineup": 2**62}}),
            ("a foreign role", {"role": "ITALY"}),
            ("no outcome", {"outcome": {}}),
            ("a large reward", {"reward": 1e300, "reward_parts": {"x": -1e300}}),
            ("a large block", {"block_size": 2**40}),
            ("the run's block", {"block_id": "a", "episode_id": "a/7"}),
            ("the run's own id", {"block_id": "a", "episode_id": "a/0"}),
        ]
    )
    episode = dataclasses.replace(good, **changed)  # type: ignore[arg-type]
    own = episode.episode_id == "a/0"
    return name, Entry(fields_of(encode(episode), episode.episode_id.encode()), is_own=own)


def changed_frame(rng: random.Random) -> tuple[str, Entry]:
    """The payload's bytes are cut, garbled, of another version, or unpack to very much."""
    good = encode(good_episode("x", 0))
    cut = rng.randrange(len(good))
    bomb = _packed(record_of(good_episode("x", 0))[:10])[:-1] + b"\xdd\x00\x4c\x4b\x40" + b"\x91\x00" * 2_000_000
    name, data = rng.choice(
        [
            ("empty", b""),
            (f"cut at {cut}", good[:cut]),
            (f"a flipped bit at {cut}", good[:cut] + bytes([good[cut] ^ (1 << rng.randrange(8))]) + good[cut + 1 :]),
            (f"noise at {cut}", good[:cut] + rng.randbytes(20) + good[cut + 20 :]),
            ("twice", good + good),
            ("noise", rng.randbytes(rng.randrange(5000))),
            ("another version", good[:3] + bytes([rng.randrange(256)]) + good[4:]),
            ("no size", frame(b"\xc0", size=False)),
            ("zeros that unpack to 200 MB", frame(bytes(200 << 20))),
            ("rows that unpack to 4 MB", frame(bomb)),
            ("lists in lists", frame(b"\x91" * 1_000_000)),
            ("a skippable frame", good[:4] + b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd" + good[4:]),
            ("more than the learner reads", bytes(LARGEST_ENTRY + rng.randrange(2_000_000))),
        ]
    )
    return name, Entry(fields_of(data))


def changed_fields(rng: random.Random) -> tuple[str, Entry]:
    """The entry's fields, id, stream or number are others."""
    good = encode(good_episode("x", 0))
    names: list[bytes] = [b"", b"\xff\xfe", b"\x1b[31m", b"a/0", b"y/0", b"x" * 100_000, b"/", b"x", b"?", b"?1-0/0"]
    name = rng.choice(names)
    return rng.choice(
        [
            (f"the id {name[:10]!r}", Entry(fields_of(good, name))),
            ("no id", Entry([(b"episode", good)])),
            ("no episode", Entry([(b"id", b"x/0")])),
            ("other fields", Entry([(b"\xff", b"\xff"), (b"", b"")])),
            ("two episodes", Entry([*fields_of(b"x"), (b"episode", good)])),
            ("many fields", Entry([(b"f%d" % number, b"") for number in range(20_000)])),
            ("another stream", Entry(fields_of(good), role="ITALY")),
            ("a far id", Entry(fields_of(good), entry_id="9223372036854775807-1")),
            ("an early id", Entry(fields_of(good), entry_id="0-1")),
            ("many times", Entry(fields_of(good), times=300)),
        ]
    )


CHANGES: tuple[Callable[[random.Random], tuple[str, Entry]], ...] = (
    changed_record,
    changed_record,
    changed_record,
    changed_column,
    changed_episode,
    changed_frame,
    changed_fields,
)


def cases(rng: random.Random) -> Iterator[Case]:
    while True:
        change = rng.choice(CHANGES)
        name, entry = change(rng)
        yield Case(f"{change.__name__}: {name}", entry)


def run(case: Case, folder: Path, shared: Shared) -> None:
    entry: Entry = case.input
    run_id = f"fuzz-{next(shared.numbers)}"
    buffer = RedisBuffer(shared.server.url, run_id, 0.0, 10.0, max_entry_bytes=LARGEST_ENTRY)
    try:
        if entry.entry_id == "*":
            buffer.append([good_episode("a", 0)])
        stream = f"entente:{run_id}:episodes:{entry.role}"
        for _ in range(entry.times):
            flat = [part for pair in entry.fields for part in pair]
            shared.raw.execute_command("XADD", stream, entry.entry_id, *flat)
        if entry.entry_id == "*":
            buffer.append([good_episode("a", 1)])
        learn(buffer, entry, shared)
    finally:
        buffer.close()
        shared.raw.flushdb()


def learn(buffer: RedisBuffer, entry: Entry, shared: Shared) -> None:
    """Do all that a learner does with the run's block and the changed entry."""
    collector = BatchCollector(buffer, 2, 10**9, 0, shared.check.fault)
    if entry.entry_id == "*":
        collector.take({ROLE: 1}, 1.0)
    with suppress(BlocksMissingError):
        collector.take({entry.role: 1}, 0.0)  # what is there of other blocks, complete or not
    episodes = collector.episodes
    if entry.entry_id == "*":
        own = Counter(episode.episode_id for episode in episodes)
        assert own["a/1"] == 1, own
        assert own["a/0"] == 1 or entry.is_own, own
    if episodes:
        shared.learner.version = 0
        shared.learner.step(Batch(episodes, 0))
    buffer.stats()
    buffer.acknowledge([*collector.receipts, Receipt("ITALY", "1-1")])
    buffer.redeliver()
    stats = buffer.stats()
    assert stats["poison"] <= entry.times
    assert len(buffer.unreadable_ids(entry.role)) <= entry.times


def check_of(config: Config) -> EpisodeCheck:
    return EpisodeCheck.of(config, VOCABULARY)


@contextmanager
def prepare(folder: Path) -> Iterator[Shared]:
    model = make_small_model(CONFIG.policy, VOCABULARY, eos_id=1, bos_id=2, pad_id=0, seed=0)
    learner = Learner(model, CONFIG.learner, CONFIG.grouping, seed=0)
    with EmbeddedServer.start(folder / "redis") as server, redis.Redis.from_url(server.url) as raw:
        yield Shared(server, raw, check_of(CONFIG), learner)


KIND = Kind("stream entries", cases, run, prepare, quick=12)
