"""The processes of the load benchmark: simulated rollout actors, and the learner's side without gradients."""

from __future__ import annotations

import multiprocessing
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cluster.actors.batch_collector import BatchCollector
from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.runtime.replay_server import redis_buffer
from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.batching.microbatches import training_turns
from grpo_core.types import Episode
from services.environments.diplomacy.position import POWERS
from services.replay.codec import decode, encode

PROCESSES = 2  # of simulated actors
THREADS = 8  # of one process: so many of its actors store episodes at the same time
GAMES_OF_A_BLOCK = 8
UPDATES = 100_000  # more than any round makes
TAKE_TIMEOUT_S = 60.0
END_TIMEOUT_S = 20.0


def load_config_of(actors: int) -> Config:
    """The config of a run in which every actor always has a block to play: two updates' episodes are in flight."""
    blocks = -(-max(len(POWERS), actors // 2 + 1) // len(POWERS)) * len(POWERS)
    return load_config(
        "laptop",
        (
            f"learner.episodes_per_update={blocks * GAMES_OF_A_BLOCK}",
            f"learner.updates={UPDATES}",
            f"rollout.num_generations={GAMES_OF_A_BLOCK}",
        ),
    )


@dataclass(frozen=True, slots=True)
class Play:
    """A block that one actor plays."""

    actor: int
    block_id: str
    power: str
    version: int  # of the weights it plays with


@dataclass(frozen=True, slots=True)
class Played:
    """A block whose episodes are stored, or could not be."""

    actor: int
    failure: str | None = None


class SimulatedActors:
    """Actors in a few processes that replay recorded episodes without delay, each over its own connection."""

    def __init__(self, url: str, run_id: str, count: int, recorded: Mapping[str, Sequence[Episode]]) -> None:
        """Start ``count`` actors, which replay ``recorded``: at least one episode of each country.

        Each process puts one ``Played`` into ``played`` when it is ready.
        """
        context = multiprocessing.get_context("spawn")
        self._work = [context.Queue() for _ in range(PROCESSES)]
        self.played: Any = context.Queue()
        encoded = {power: [encode(episode) for episode in episodes] for power, episodes in recorded.items()}
        self.processes = [
            context.Process(
                target=_run_actors,
                args=(url, run_id, count, range(first, count, PROCESSES), encoded, work, self.played),
                daemon=True,
            )
            for first, work in enumerate(self._work)
        ]
        for process in self.processes:
            process.start()

    def play(self, block: Play) -> None:
        """Let an actor play."""
        self._work[block.actor % PROCESSES].put(block)

    def finished(self, timeout_s: float) -> list[Played]:
        """Return the played blocks; waits at most ``timeout_s`` for the first."""
        done: list[Played] = []
        try:
            done.append(self.played.get(timeout=timeout_s))
            while True:
                done.append(self.played.get_nowait())
        except queue.Empty:
            return done

    def close(self) -> None:
        """End them after the blocks they are playing."""
        for work in self._work:
            work.put(None)
        deadline = time.monotonic() + END_TIMEOUT_S
        for process in self.processes:
            process.join(max(0.1, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join(END_TIMEOUT_S)


def _run_actors(
    url: str, run_id: str, count: int, actors: range, encoded: Mapping[str, Sequence[bytes]], work: Any, played: Any
) -> None:
    config = load_config_of(count)
    recorded = {power: [decode(each) for each in episodes] for power, episodes in encoded.items()}
    buffers = {actor: redis_buffer(config.redis, url, run_id) for actor in actors}

    def store_blocks() -> None:
        while (play := work.get()) is not None:
            failure = None
            try:
                for member in range(GAMES_OF_A_BLOCK):  # one by one, as games end
                    buffers[play.actor].append([_as_played(recorded[play.power], play, member)])
            except Exception as error:  # noqa: BLE001 - the benchmark's process raises it
                failure = f"{type(error).__name__}: {error}"
            played.put(Played(play.actor, failure))
        work.put(None)  # for the next thread

    threads = [threading.Thread(target=store_blocks, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    played.put(Played(-1))  # ready
    for thread in threads:
        thread.join()
    for buffer in buffers.values():
        buffer.close()


def _as_played(recorded: Sequence[Episode], play: Play, member: int) -> Episode:
    episode = recorded[member % len(recorded)]
    return replace(
        episode,
        episode_id=f"{play.block_id}/{member}",
        block_id=play.block_id,
        block_size=GAMES_OF_A_BLOCK,
        turns=tuple(replace(turn, policy_version=play.version) for turn in episode.turns),
    )


class LearnerSide:
    """The learner's batch collection, advantages and turns, without a model."""

    def __init__(self, url: str, run_id: str, actors: int) -> None:
        """Connect to the replay server at ``url``."""
        self._config = load_config_of(actors)
        self._buffer = redis_buffer(self._config.redis, url, run_id)
        self._buffer.redeliver()
        self._collector = BatchCollector(
            self._buffer, GAMES_OF_A_BLOCK, self._config.rollout.max_staleness, self._config.learner.top_up_episodes
        )
        self._version = 0

    def update(self, blocks: Mapping[str, int]) -> int:
        """Make an update of this many blocks of each country; returns its number of episodes."""
        self._collector.take(blocks, TAKE_TIMEOUT_S)
        episodes = self._collector.fresh(self._version)
        compute_advantages(episodes, self._config.learner, self._config.grouping, {})
        training_turns(episodes, self._version)
        self._buffer.acknowledge(self._collector.receipts)
        self._collector.clear()
        self._version += 1
        return len(episodes)
