"""Simulated rollout actors: they replay recorded episodes into a real buffer, each over a connection of its own."""

from __future__ import annotations

import multiprocessing
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cluster.configs.schema import Config
from cluster.runtime.redis_clients import redis_buffer
from grpo_core.types import Episode
from services.replay.codec import decode, encode

THREADS = 8  # of one process: so many of its actors store something at the same moment
END_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Play:
    """One actor is to play one block."""

    actor: int
    block_id: str
    power: str
    games: int
    version: int  # of the weights it plays with


@dataclass(frozen=True, slots=True)
class Played:
    """It did; or it could not, and says why."""

    actor: int
    power: str
    failure: str | None = None


class SimulatedActors:
    """``count`` actors in a few processes; those play no time at all, so that only the control plane takes any."""

    def __init__(
        self,
        config: Config,
        url: str,
        run_id: str,
        count: int,
        processes: int,
        recorded: Mapping[str, Sequence[Episode]],
    ) -> None:
        """Start them.

        Args:
            config: of the run that is simulated.
            url: of the replay server.
            run_id: of the run.
            count: actors; each has a buffer, hence a connection, of its own.
            processes: they are spread over.
            recorded: episodes of each country to replay, at least one each.
        """
        context = multiprocessing.get_context("spawn")
        self._asked = [context.Queue() for _ in range(processes)]
        self.played: Any = context.Queue()
        encoded = {power: [encode(episode) for episode in episodes] for power, episodes in recorded.items()}
        self.processes = [
            context.Process(
                target=_play,
                args=(
                    config.model_dump_json(),
                    url,
                    run_id,
                    range(first, count, processes),
                    encoded,
                    asked,
                    self.played,
                ),
                daemon=True,
            )
            for first, asked in enumerate(self._asked)
        ]
        for process in self.processes:
            process.start()

    def play(self, work: Play) -> None:
        """Let an actor play."""
        self._asked[work.actor % len(self._asked)].put(work)

    def close(self) -> None:
        """End them, what they are at included."""
        for asked in self._asked:
            asked.put(None)
        deadline = time.monotonic() + END_TIMEOUT_S
        for process in self.processes:
            process.join(max(0.1, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join(END_TIMEOUT_S)


def _play(
    config_json: str,
    url: str,
    run_id: str,
    actors: range,
    encoded: Mapping[str, Sequence[bytes]],
    asked: Any,
    played: Any,
) -> None:
    config = Config.model_validate_json(config_json)
    recorded = {power: [decode(each) for each in episodes] for power, episodes in encoded.items()}
    buffers = {actor: redis_buffer(config, url, run_id) for actor in actors}
    work: queue.Queue[Play | None] = queue.Queue()

    def store() -> None:
        while (play := work.get()) is not None:
            failure = None
            try:
                for member in range(play.games):
                    episode = _as_played(recorded[play.power], play, member)
                    buffers[play.actor].append([episode])  # one by one, as games end
            except Exception as error:  # noqa: BLE001 - the benchmark's process is told, and raises it
                failure = f"{type(error).__name__}: {error}"
            played.put(Played(play.actor, play.power, failure))

    threads = [threading.Thread(target=store, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    played.put(None)  # ready
    while (play := asked.get()) is not None:
        work.put(play)
    for _ in threads:
        work.put(None)
    for thread in threads:
        thread.join(END_TIMEOUT_S)
    for buffer in buffers.values():
        buffer.close()


def _as_played(recorded: Sequence[Episode], play: Play, member: int) -> Episode:
    episode = recorded[member % len(recorded)]
    return replace(
        episode,
        episode_id=f"{play.block_id}/{member}",
        block_id=play.block_id,
        block_size=play.games,
        turns=tuple(replace(turn, policy_version=play.version) for turn in episode.turns),
    )
