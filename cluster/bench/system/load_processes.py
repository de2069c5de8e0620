"""The processes of the load benchmark: simulated rollout actors, and the learner's side without gradients."""

from __future__ import annotations

import multiprocessing
import queue
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from cluster.actors.batch_collector import BatchCollector
from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.runtime.replay.clients import replay_buffer
from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.batching.microbatches import training_turns
from grpo_core.types import Episode
from services.environments.diplomacy.position import POWERS

PROCESSES = 2  # of simulated actors
THREADS = 8  # of one process: so many of its actors store episodes at the same time
GAMES_OF_A_BLOCK = 8
UPDATES = 100_000  # more than any round makes
START_TIMEOUT_S = 600.0
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


class SimulatedActors:
    """Actors in a few processes that replay recorded episodes without delay, each over its own connection."""

    def __init__(self, urls: Sequence[str], run_id: str, count: int, recorded: Mapping[str, Sequence[Episode]]) -> None:
        """Start ``count`` actors, which replay ``recorded``: at least one episode of each country."""
        context = multiprocessing.get_context("spawn")
        self._work = [context.Queue() for _ in range(PROCESSES)]
        self._played: Any = context.Queue()  # actors whose block is stored, or the errors of those that could not
        self.processes = [
            context.Process(
                target=_run_actors,
                args=(urls, run_id, count, range(first, count, PROCESSES), recorded, work, self._played),
                daemon=True,
            )
            for first, work in enumerate(self._work)
        ]
        for process in self.processes:
            process.start()
        for _ in range(PROCESSES):
            self._played.get(timeout=START_TIMEOUT_S)

    def play(self, block: Play) -> None:
        """Let an actor play."""
        self._work[block.actor % PROCESSES].put(block)

    def finished(self, timeout_s: float) -> list[int]:
        """Return the actors that stored their block; waits at most ``timeout_s`` for the first.

        Raises RuntimeError if one could not.
        """
        done: list[int] = []
        with suppress(queue.Empty):
            while True:
                actor: int | str = self._played.get(timeout=0 if done else timeout_s)
                if isinstance(actor, str):
                    raise RuntimeError(f"a simulated actor could not store an episode: {actor}")
                done.append(actor)
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
    urls: Sequence[str],
    run_id: str,
    count: int,
    actors: range,
    recorded: Mapping[str, Sequence[Episode]],
    work: Any,
    played: Any,
) -> None:
    config = load_config_of(count)
    buffers = {actor: replay_buffer(config.redis, urls, config.world.roles, run_id) for actor in actors}

    def store_block(play: Play) -> None:
        try:
            for member in range(GAMES_OF_A_BLOCK):  # one by one, as games end
                buffers[play.actor].append([_as_played(recorded[play.power], play, member)])
        except Exception as error:  # noqa: BLE001 - the benchmark's process raises it
            played.put(f"{type(error).__name__}: {error}")
        else:
            played.put(play.actor)

    played.put(-1)  # ready
    with ThreadPoolExecutor(THREADS) as threads:
        for play in iter(work.get, None):
            threads.submit(store_block, play)
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

    def __init__(self, urls: Sequence[str], run_id: str, actors: int) -> None:
        """Connect to the replay servers at ``urls``."""
        self._config = load_config_of(actors)
        self._buffer = replay_buffer(self._config.redis, urls, self._config.world.roles, run_id)
        self._buffer.redeliver()
        self._collector = BatchCollector(
            self._buffer, GAMES_OF_A_BLOCK, self._config.rollout.max_staleness, self._config.learner.top_up_episodes
        )
        self._version = 0

    def update(self, blocks: Mapping[str, int]) -> int:
        """Make an update of this many blocks of each country; returns the number of episodes, stale ones included."""
        self._collector.take(blocks, TAKE_TIMEOUT_S)
        episodes = self._collector.fresh(self._version)
        compute_advantages(episodes, self._config.learner, self._config.grouping, {})
        training_turns(episodes, self._version)
        receipts = self._collector.receipts
        self._buffer.acknowledge(receipts)
        self._collector.clear()
        self._version += 1
        return len(receipts)
