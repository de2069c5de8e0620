"""How many episodes a second the control plane carries: real server, ledger, admission and learner's intake.

Only games and gradients are left out: simulated actors replay recorded episodes at once, and what the learner takes is
judged and made ready for the forward pass, then acknowledged. Ray's calls are left out too. The CPU time that each part
takes for an episode says what a part could carry on a core of its own, and so where a larger system saturates.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import queue
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import redis

from cluster.actors.batch_collector import BatchCollector
from cluster.actors.initial_policy import make_policy
from cluster.actors.messages import BlockReport
from cluster.bench.figure import Figure
from cluster.bench.system.load_actors import Play, Played, SimulatedActors
from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.driver.admission import Admission
from cluster.driver.block_schedule import BlockSchedule
from cluster.runtime.engines import make_engine
from cluster.runtime.redis_clients import redis_buffer
from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.batching.microbatches import training_turns
from grpo_core.models.pretrained import save_model
from grpo_core.types import Episode
from opponents.bots.registry import make_bot
from opponents.matchmaking.lineup import LineupBlock
from opponents.matchmaking.matchmaker import Matchmaker
from opponents.play import make_episode, play_game
from opponents.players.chat_players import add_members
from opponents.players.llm_policy import LLMPolicy, OrderTokens
from opponents.population.population import Population
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.inference.engine import LEARNER
from services.replay.codec import encode
from services.replay.server.embedded import EmbeddedServer

ACTORS = (10, 100, 1000)
PROCESSES = 2  # of simulated actors
SECONDS = 6.0  # of one round, once it has warmed up
WARM_UPDATES = 1
START_TIMEOUT_S = 120.0
STALL_TIMEOUT_S = 60.0
UPDATES = 100_000  # more than any round makes
GAMES_OF_A_BLOCK = 8
_READ = 64


@dataclass(slots=True)
class Carried:
    """What one round showed."""

    episodes: int = 0
    seconds: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)  # by part: actors, server, learner, driver
    most_stored_bytes: float = 0.0  # of episodes, in the server
    most_learner_bytes: float = 0.0  # resident

    @property
    def rate(self) -> float:
        """Episodes a second."""
        return self.episodes / self.seconds

    def says(self) -> str:
        """Where the time went, and what a part could carry on a core of its own."""
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
    """Figures for 10, 100 and 1,000 actors; the best of ``rounds`` counts, for whatever disturbs makes it less."""
    with tempfile.TemporaryDirectory(prefix="entente-bench-") as folder:
        recorded = record(Path(folder))
        encoded = [encode(episode) for episodes in recorded.values() for episode in episodes]
        size = sum(map(len, encoded)) / len(encoded)
        figures = []
        for count in ACTORS:
            carried = max((carry(Path(folder), recorded, count) for _ in range(rounds)), key=lambda each: each.rate)
            bare = max(_bare(Path(folder), encoded) for _ in range(rounds))
            note = f"{size / 1000:.1f} KB encoded; {carried.says()}"
            figures.append(
                Figure(f"control plane, {count} actors", "episodes/s", carried.rate, bare, "bare redis-py", note=note)
            )
    return figures


def load_config_of(actors: int) -> Config:
    """A run in which every actor always has a block to play: two updates' episodes are in flight."""
    blocks = -(-max(len(POWERS), actors // 2 + 1) // len(POWERS)) * len(POWERS)
    return load_config(
        "laptop",
        (
            f"learner.episodes_per_update={blocks * GAMES_OF_A_BLOCK}",
            f"learner.updates={UPDATES}",
            f"rollout.num_generations={GAMES_OF_A_BLOCK}",
        ),
    )


def record(folder: Path) -> dict[str, list[Episode]]:
    """Two real games of the untrained small policy as each country, against random bots."""
    config = load_config("laptop")
    model, tokenizer = make_policy(config.policy, config.run.seed)
    save_model(model, tokenizer, folder / "policy")
    engine, _ = make_engine(config, folder / "policy")
    population = Population(folder / "recorded.json")
    add_members(population, config.opponents)
    matchmaker = Matchmaker(population, 2, config.run.seed, config.opponents)
    policy = LLMPolicy(
        engine,
        OrderTokens(tokenizer),
        policy=LEARNER,
        decoding="constrained",
        temperature=1.0,
        max_completion_length=config.inference.max_completion_length,
    )
    bot = make_bot("random")

    async def play(block: LineupBlock, member: int) -> Episode:
        power = block.learner_power
        seats = {other: policy if other == power else bot for other in POWERS}
        game = DiplomacyGame(config.game.until_year)
        seed = block.game_seed(member)
        played = await play_game(game, seats, seed, learners=(power,), reward_weights=config.game.reward)
        return make_episode(block, member, power, played, config.game.reward)

    async def play_all() -> list[Episode]:
        try:
            blocks = [matchmaker.block(index) for index in range(len(POWERS))]
            return list(await asyncio.gather(*(play(block, member) for block in blocks for member in range(2))))
        finally:
            await engine.close()

    recorded: dict[str, list[Episode]] = {}
    for episode in asyncio.run(play_all()):
        recorded.setdefault(episode.role, []).append(episode)
    return recorded


def carry(folder: Path, recorded: Mapping[str, Sequence[Episode]], count: int) -> Carried:
    """One round: a whole run's control plane for ``SECONDS``.

    Raises:
        RuntimeError: it stalled, or an actor could not store an episode; says which.
    """
    config = load_config_of(count)
    with tempfile.TemporaryDirectory(dir=folder) as place, EmbeddedServer.start(Path(place)) as server:
        run_id = f"load{count}"
        actors = SimulatedActors(config, server.url, run_id, count, PROCESSES, recorded)
        learner = _LearnerSide(config, server.url, run_id)
        try:
            for _ in range(PROCESSES):
                actors.played.get(timeout=START_TIMEOUT_S)
            learner.wait_ready()
            watch = _Watch(
                {
                    "actors": [psutil.Process(process.pid) for process in actors.processes],
                    "server": [psutil.Process(server.pid)],
                    "learner": [psutil.Process(learner.pid)],
                    "driver": [psutil.Process()],
                },
                server.url,
            )
            return _drive(config, Path(place), actors, learner, watch, count)
        finally:
            actors.close()
            learner.close()


def _drive(
    config: Config, place: Path, actors: SimulatedActors, learner: _LearnerSide, watch: _Watch, count: int
) -> Carried:
    """The driver's loop, as ``cluster.driver.training.learn`` has it."""
    population = Population(place / "population.json")
    add_members(population, config.opponents)
    ledger = BlockSchedule(config, Matchmaker(population, GAMES_OF_A_BLOCK, config.run.seed, config.opponents), 0)
    admission = Admission(config.learner.episodes_per_update, config.rollout.max_staleness)
    idle, playing = list(range(count)), 0
    blocks: dict[int, LineupBlock] = {}
    version, busy = 0, False
    carried = Carried()
    began = 0.0
    last = time.monotonic()
    while True:
        while idle and admission.admits(version, ledger.started_episodes, GAMES_OF_A_BLOCK):
            block = ledger.next_block()
            actor = idle.pop()
            blocks[actor] = block
            actors.play(Play(actor, block.block_id, block.learner_power, GAMES_OF_A_BLOCK, version))
            playing += 1
        if not busy and ledger.ready():
            learner.update(ledger.hand_over())
            busy = True
        for done in _finished(actors):
            if done.failure is not None:
                raise RuntimeError(f"a simulated actor could not store an episode: {done.failure}")
            block = blocks.pop(done.actor)
            idle.append(done.actor)
            playing -= 1
            ledger.finished(BlockReport(block, games=GAMES_OF_A_BLOCK, stored=GAMES_OF_A_BLOCK, seconds=0.0))
            last = time.monotonic()
        if busy and (episodes := learner.answered()) is not None:
            ledger.updated()
            version, busy, last = version + 1, False, time.monotonic()
            if version == WARM_UPDATES:
                began = last
                watch.start()
            elif version > WARM_UPDATES:
                carried.episodes += episodes
                watch.look(carried)
                if last - began >= SECONDS:
                    carried.seconds = last - began
                    carried.cpu_s = watch.cpu_s()
                    return carried
        if time.monotonic() - last > STALL_TIMEOUT_S:
            raise RuntimeError(
                f"nothing was stored or taken for {STALL_TIMEOUT_S:.0f} s at version {version}: {playing} blocks are "
                f"being played, the learner {'has' if busy else 'waits for'} its blocks"
            )


def _finished(actors: SimulatedActors) -> list[Played]:
    """What has been played; waits a moment for the first."""
    done: list[Played] = []
    try:
        done.append(actors.played.get(timeout=0.01))
        while True:
            done.append(actors.played.get_nowait())
    except queue.Empty:
        return done


class _LearnerSide:
    """The learner's intake in a process of its own."""

    def __init__(self, config: Config, url: str, run_id: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_learn, args=(config.model_dump_json(), url, run_id, theirs), daemon=True
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def wait_ready(self) -> None:
        if not self._connection.poll(START_TIMEOUT_S):
            raise RuntimeError(f"the learner's side did not start within {START_TIMEOUT_S:.0f} s")
        self._connection.recv()

    def update(self, blocks: Mapping[str, int]) -> None:
        self._connection.send(dict(blocks))

    def answered(self) -> int | None:
        """Episodes of the update that was asked for; None while it is under way."""
        if not self._connection.poll(0):
            return None
        try:
            answer: int = self._connection.recv()
        except EOFError:
            raise RuntimeError("the learner's side died") from None
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.join(10)


def _learn(config_json: str, url: str, run_id: str, connection: Any) -> None:
    config = Config.model_validate_json(config_json)
    buffer = redis_buffer(config, url, run_id)
    buffer.redeliver()
    collector = BatchCollector(
        buffer, config.rollout.num_generations, config.rollout.max_staleness, config.learner.top_up_episodes
    )
    connection.send(0)
    version = 0
    while True:
        collector.take(connection.recv(), STALL_TIMEOUT_S)
        episodes = collector.fresh(version)
        compute_advantages(episodes, config.learner, config.grouping, {})
        training_turns(episodes, version)
        buffer.acknowledge(collector.receipts)
        collector.clear()
        version += 1
        connection.send(len(episodes))


class _Watch:
    """CPU time of the parts, and the memory they hold."""

    def __init__(self, parts: Mapping[str, Sequence[psutil.Process]], url: str) -> None:
        self._parts = parts
        self._server = redis.Redis.from_url(url)
        self._before: dict[str, float] = {}
        self._empty = 0.0

    def start(self) -> None:
        self._before = self._now()

    def look(self, carried: Carried) -> None:
        memory: Any = self._server.info("memory")
        stored = float(memory["used_memory_dataset"])
        learner = max(process.memory_info().rss for process in self._parts["learner"])
        carried.most_stored_bytes = max(carried.most_stored_bytes, stored)
        carried.most_learner_bytes = max(carried.most_learner_bytes, float(learner))

    def cpu_s(self) -> dict[str, float]:
        return {name: seconds - self._before[name] for name, seconds in self._now().items()}

    def _now(self) -> dict[str, float]:
        return {
            name: sum(sum(process.cpu_times()[:2]) for process in processes) for name, processes in self._parts.items()
        }


def _bare(folder: Path, encoded: Sequence[bytes]) -> float:
    """Entries a second of the same sizes that plain redis-py writes, reads and forgets on the same kind of server."""
    with tempfile.TemporaryDirectory(dir=folder) as place, EmbeddedServer.start(Path(place)) as server:
        stop = threading.Event()
        reader: Any = redis.Redis.from_url(server.url)
        reader.xgroup_create("bare", "learner", "0", mkstream=True)

        def write() -> None:
            client = redis.Redis.from_url(server.url)
            number = 0
            while not stop.is_set():
                client.xadd("bare", {"episode": encoded[number % len(encoded)]})
                number += 1
            client.close()

        writers = [threading.Thread(target=write, daemon=True) for _ in range(PROCESSES)]
        for writer in writers:
            writer.start()
        read, start = 0, time.monotonic()
        while (seconds := time.monotonic() - start) < SECONDS / 2:
            reply = reader.execute_command(
                "XREADGROUP", "GROUP", "learner", "learner", "COUNT", _READ, "BLOCK", 1000, "STREAMS", "bare", ">"
            )
            entries = (dict(reply)[b"bare"] if not isinstance(reply, dict) else reply[b"bare"]) if reply else []
            ids = [entry[0] for entry in entries]
            if ids:
                reader.xack("bare", "learner", *ids)
                reader.xdel("bare", *ids)
            read += len(ids)
        stop.set()
        for writer in writers:
            writer.join(10)
        reader.close()
        return read / seconds
