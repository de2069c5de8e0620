"""Episodes a second through the control plane: real server, schedule, admission and batch collection.

Only games, gradients and Ray's calls are left out: simulated actors replay recorded episodes at once, and the learner's
side prepares them for the forward pass and acknowledges them. Each part's CPU time for an episode gives its rate on a
core of its own, and so the part that saturates first in a larger system.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil
import redis

from cluster.actors.initial_policy import make_policy
from cluster.actors.rollout import RolloutWorker
from cluster.bench.figure import Figure
from cluster.bench.processes import HostProcess, host_process
from cluster.bench.system.load_processes import (
    GAMES_OF_A_BLOCK,
    PROCESSES,
    LearnerSide,
    Play,
    SimulatedActors,
    load_config_of,
)
from cluster.bench.system.replay import BareStream
from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.driver.block_schedule import BlockSchedule
from grpo_core.models.pretrained import save_model
from grpo_core.types import Episode
from opponents.matchmaking.lineup import LineupBlock
from opponents.matchmaking.matchmaker import Matchmaker
from opponents.players.chat_players import add_members
from opponents.population.member import Member
from opponents.population.population import Population
from services.environments.diplomacy.position import POWERS
from services.replay.codec import encode
from services.replay.memory_buffer import MemoryBuffer
from services.replay.server.embedded import EmbeddedServer

ACTORS = (10, 100, 1000)
SECONDS = 6.0  # of one round, once it has warmed up
WARM_UPDATES = 1
STALL_TIMEOUT_S = 300.0
RECORDED = 2  # games of each country


class Carried:
    """The measurements of one round: episodes, and CPU time and memory of the parts."""

    def __init__(self, parts: Mapping[str, Sequence[psutil.Process]], clients: Sequence[Any]) -> None:
        self._parts, self._clients = parts, clients
        self.episodes = 0
        self.seconds = 0.0
        self.cpu_s: dict[str, float] = {}  # by part: actors, server, learner, driver
        self.most_stored_bytes = 0.0  # of episodes, in the server
        self.most_learner_bytes = 0.0  # resident
        self.start()

    def start(self) -> None:
        """Count from now on."""
        self._began, self._cpu_before = time.monotonic(), self._cpu_now()

    def add(self, episodes: int) -> None:
        """Count the episodes of an update."""
        self.episodes += episodes
        self.seconds = time.monotonic() - self._began
        self.cpu_s = {name: seconds - self._cpu_before[name] for name, seconds in self._cpu_now().items()}
        stored = sum(float(client.info("memory")["used_memory_dataset"]) for client in self._clients)
        self.most_stored_bytes = max(self.most_stored_bytes, stored)
        self.most_learner_bytes = max(self.most_learner_bytes, self._parts["learner"][0].memory_info().rss)

    def _cpu_now(self) -> dict[str, float]:
        return {name: sum(sum(each.cpu_times()[:2]) for each in processes) for name, processes in self._parts.items()}

    @property
    def rate(self) -> float:
        """Episodes a second."""
        return self.episodes / self.seconds

    def summary(self) -> str:
        """The busy cores by part, and the rate of each part on a core of its own."""
        cores = os.cpu_count() or 1
        total = sum(self.cpu_s.values())
        parts = ", ".join(f"{name} {seconds / self.seconds:.2f}" for name, seconds in self.cpu_s.items())
        alone = ", ".join(
            f"{name} {self.episodes / seconds:,.0f}" for name, seconds in self.cpu_s.items() if seconds > 0.01
        )
        stored, learner = self.most_stored_bytes / 1e6, self.most_learner_bytes / 1e6
        return (
            f"busy cores: {parts} ({total / self.seconds:.2f} of {cores}); episodes/s of a core alone: {alone}; "
            f"at most {stored:.0f} MB of episodes stored, learner's process {learner:.0f} MB"
        )


def run(rounds: int) -> list[Figure]:
    """Measure 10, 100 and 1,000 actors; the best of ``rounds`` counts, because disturbances only reduce a rate."""
    with tempfile.TemporaryDirectory(prefix="entente-bench-") as folder:
        recorded = record(Path(folder))
        encoded = [encode(episode) for episodes in recorded.values() for episode in episodes]
        size = sum(map(len, encoded)) / len(encoded)
        figures = []
        for count in ACTORS:
            carried = max((carry(Path(folder), recorded, count) for _ in range(rounds)), key=lambda each: each.rate)
            bare = max(_bare(Path(folder), encoded) for _ in range(rounds))
            note = f"{size / 1000:.1f} KB encoded; {carried.summary()}"
            figures.append(
                Figure(f"control plane, {count} actors", "episodes/s", carried.rate, bare, "bare redis-py", note=note)
            )
        count = ACTORS[-1]
        one, two = (
            max((carry(Path(folder), recorded, count, servers) for _ in range(rounds)), key=lambda each: each.rate)
            for servers in (1, 2)
        )
        text, note = f"two replay servers, {count} actors", f"{two.summary()}; with one server {one.summary()}"
        figures.append(Figure(text, "episodes/s", two.rate, one.rate, "one replay server", note=note))
    return figures


def record(folder: Path) -> dict[str, list[Episode]]:
    """Record two real games of the untrained small policy as each country, against random bots."""
    config = load_config("laptop", (f"rollout.num_generations={RECORDED}",))
    model, tokenizer = make_policy(config.policy, config.run.seed, config.world.language)
    save_model(model, tokenizer, folder / "policy")
    buffer = MemoryBuffer(group_timeout_s=STALL_TIMEOUT_S)
    population = folder / "recorded.json"
    worker = RolloutWorker(config, str(folder / "policy"), str(population), buffer)
    matchmaker, members = _matchmaker(population, RECORDED, config)

    async def play_all() -> None:
        try:
            blocks = [matchmaker.block(index) for index in range(len(POWERS))]
            await asyncio.gather(*(worker.play_block(block, members, version=-1) for block in blocks))
        finally:
            await worker.close()

    asyncio.run(play_all())
    recorded: dict[str, list[Episode]] = {}
    for episode in buffer.take(dict.fromkeys(POWERS, 1), timeout_s=1).episodes:
        recorded.setdefault(episode.role, []).append(episode)
    return recorded


def carry(folder: Path, recorded: Mapping[str, Sequence[Episode]], count: int, servers: int = 1) -> Carried:
    """Run the control plane of a whole run for ``SECONDS``, its episodes on so many replay ``servers``.

    Raises RuntimeError if it stalled, or an actor could not store an episode.
    """
    config, run_id = load_config_of(count), f"load{count}"
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(dir=folder))
        started = [stack.enter_context(EmbeddedServer.start(Path(place) / str(number))) for number in range(servers)]
        urls = [server.url for server in started]
        actors = stack.enter_context(closing(SimulatedActors(urls, run_id, count, recorded)))
        learner = stack.enter_context(host_process({}, LearnerSide, urls, run_id, count))
        clients = [stack.enter_context(closing(redis.Redis.from_url(url))) for url in urls]
        pids: dict[str, list[int | None]] = {
            "actors": [process.pid for process in actors.processes],
            "server": [server.pid for server in started],
            "learner": [learner.pid],
            "driver": [os.getpid()],
        }
        file = Path(place) / "population.json"
        matchmaker, _ = _matchmaker(file, GAMES_OF_A_BLOCK, config)
        schedule = BlockSchedule(config.run.seed, config.world.roles, config.learner, config.rollout, matchmaker, 0)
        carried = Carried({name: [psutil.Process(pid) for pid in each] for name, each in pids.items()}, clients)
        _drive(count, schedule, actors, learner, carried)
        return carried


def _matchmaker(file: Path, games: int, config: Config) -> tuple[Matchmaker, list[Member]]:
    population = Population(file)
    add_members(population, config.opponents)
    matchmaker = Matchmaker(population, config.world, games, config.run.seed, config.opponents)
    return matchmaker, list(population.active())


def _drive(
    count: int, schedule: BlockSchedule, actors: SimulatedActors, learner: HostProcess[LearnerSide], carried: Carried
) -> None:
    """Run the driver's loop, as training does."""
    idle, playing = list(range(count)), dict[int, LineupBlock]()
    update: Future[int] | None = None
    version, last = 0, time.monotonic()
    while True:
        while idle and schedule.admits():
            block, actor = schedule.next_block(), idle.pop()
            playing[actor] = block
            actors.play(Play(actor, block.block_id, block.role, version))
        if update is None and schedule.ready():
            update = learner.submit(LearnerSide.update, dict(schedule.hand_over()))
        for actor in actors.finished(timeout_s=0.01):
            schedule.finished(playing.pop(actor))
            idle.append(actor)
            last = time.monotonic()
        if update is not None and update.done():
            episodes, update = update.result(), None
            schedule.updated()
            version, last = version + 1, time.monotonic()
            if version == WARM_UPDATES:
                carried.start()
            elif version > WARM_UPDATES:
                carried.add(episodes)
                if carried.seconds >= SECONDS:
                    return
        if time.monotonic() - last > STALL_TIMEOUT_S:
            raise RuntimeError(
                f"nothing was stored or taken for {STALL_TIMEOUT_S:.0f} s at version {version}: {len(playing)} blocks "
                f"are being played, the learner {'waits for' if update is None else 'has'} its blocks"
            )


def _bare(folder: Path, encoded: Sequence[bytes]) -> float:
    """Entries a second that plain redis-py writes, reads and deletes; the same sizes, the same kind of server."""
    with tempfile.TemporaryDirectory(dir=folder) as place, EmbeddedServer.start(Path(place)) as server:
        stop = threading.Event()

        def write() -> None:
            number = 0
            with closing(redis.Redis.from_url(server.url)) as client:
                while not stop.is_set():
                    client.xadd("bare", {"episode": encoded[number % len(encoded)]})
                    number += 1

        with closing(BareStream(server.url)) as stream:
            writers = [threading.Thread(target=write, daemon=True) for _ in range(PROCESSES)]
            for writer in writers:
                writer.start()
            read, start = 0, time.monotonic()
            while (seconds := time.monotonic() - start) < SECONDS / 2:
                read += stream.read("BLOCK", 1000)
            stop.set()
            for writer in writers:
                writer.join(10)
        return read / seconds
