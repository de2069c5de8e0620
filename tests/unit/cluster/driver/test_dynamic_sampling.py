"""Dynamic sampling through the driver's loop, schedule, buffer and learner; only Ray and the games are left out."""

from __future__ import annotations

import dataclasses
import json
import random
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from safetensors.numpy import load

import cluster.driver.heartbeat
import cluster.driver.learner_update
import grpo_core.learner
from cluster.actors.learner import LearnerWorker
from cluster.actors.messages import BlockReport
from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.driver.block_schedule import BlockSchedule
from cluster.driver.rollout_worker import PoolEvents
from cluster.driver.training import TrainingRun, learn
from cluster.errors import LateError
from cluster.runs.folder import RunFolder
from cluster.runtime.replay.server_watch import ServerWatch
from grpo_core.types import Probe
from opponents.league.league import League
from opponents.matchmaking.lineup import EXTRA_BLOCKS_FROM, LineupBlock
from opponents.population.population import Population
from services.environments.diplomacy.position import POWERS
from services.replay.memory_buffer import MemoryBuffer
from tests.unit.grpo_core.support.cases import episode_of, ragged_turn

SMALL = (
    "policy.hidden_size=32", "policy.layers=1", "policy.intermediate_size=32", "learner.tokens_per_microbatch=1024",
    "rollout.num_generations=2", "learner.episodes_per_update=14", "learner.updates=3", "learner.minibatches=1",
    "learner.returns=episode", "learner.lr_warmup_updates=0", "learner.top_up_episodes=4",
    "learner.checkpoint_every=3",
    "grouping.keys=['country+lineup','country']", "grouping.min_group_size=2", "evaluation.every=0",
    "opponents.snapshot_every=0",
)  # fmt: skip


class CrashError(Exception):
    """The driver dies."""


class Remote:
    """A learner's method as Ray shows it, but answered at once."""

    def __init__(self, method: Any) -> None:
        self.method = method

    def options(self, **_: object) -> Remote:
        return self

    def remote(self, *arguments: Any) -> Any:
        return self.method(*arguments)


class InstantPool:
    """Plays one block a poll; games of ``zero_variance`` blocks get the same reward, ``late`` ones are held back."""

    size, ready, restarts, games_in_flight, replacements_left = 1, 1, 0, 0, 20
    swap_failures: ClassVar[dict[str, int]] = {}

    def __init__(self, config: Config, buffer: MemoryBuffer, zero_variance: Any, version: int, polls: int) -> None:
        self.config, self.buffer, self.zero_variance, self.version = config, buffer, zero_variance, version
        self.started: list[LineupBlock] = []
        self.queue: list[tuple[LineupBlock, int]] = []  # with the version that it began with
        self.late: set[int] = set()
        self.polls = polls

    def has_room(self, games: int) -> bool:
        return True

    def submit(self, block: LineupBlock, members: object) -> None:
        self.started.append(block)
        self.queue.append((block, self.version))

    def poll(self, others: list[Any], timeout_s: float) -> PoolEvents:
        self.polls -= 1
        if self.polls < 0:
            raise CrashError
        events = PoolEvents(other=list(others))
        ready = [entry for entry in self.queue if entry[0].index not in self.late]
        if ready:
            block, version = ready[0]
            self.queue.remove(ready[0])
            ids = [f"{block.block_id}/{member}" for member in range(block.num_generations)]
            missing = [member for member, name in enumerate(ids) if name not in self.buffer.stored_ids(ids)]
            self.buffer.append([self._play(block, member, version) for member in missing])
            events.blocks.append(BlockReport(block, len(missing)))
        else:
            time.sleep(0.001)
        return events

    def _play(self, block: LineupBlock, member: int, version: int) -> Any:
        rng = np.random.default_rng([block.index, member])
        reward = 1.0 if self.zero_variance(block) else float(member)
        episode = episode_of(
            (ragged_turn(rng, policy_version=version),),
            role=block.role,
            name=f"{block.block_id}/{member}",
            reward=reward,
        )
        outcome = dict.fromkeys(("centers", "solo", "draw", "top", "survived", "final_year", "phases"), 1.0)
        keys = {"country": block.role, "lineup": block.block_id}
        return dataclasses.replace(episode, block_size=block.num_generations, keys=keys, outcome=outcome)

    def broadcast(self, weights: object, version: int) -> None:
        self.version = version

    def stats(self) -> dict[str, float]:
        return {}


class Run:
    """A training run whose driver may die and restart."""

    def __init__(self, path: Path, zero_variance: Any, *overrides: str) -> None:
        self.config = load_config("smoke", [*SMALL, *overrides])
        self.folder = RunFolder(path)
        path.mkdir()
        self.buffer = MemoryBuffer(group_timeout_s=60)
        self.zero_variance = zero_variance
        self.log: list[str] = []
        self.reports: list[Any] = []

    def drive(self, polls: int = 200, late: frozenset[int] = frozenset()) -> InstantPool:
        worker = LearnerWorker(self.config, str(self.folder.path), self.buffer, resume=self.folder.checkpoints.exists())
        population = Population(self.folder.population)
        population.add_bot("random")
        league = League(
            self.folder.path,
            population,
            self.config.opponents,
            world=self.config.world,
            num_generations=self.config.rollout.num_generations,
            seed=self.config.run.seed,
            version=worker.version(),
            resume=worker.version() > 0,
        )
        schedule = BlockSchedule(
            self.config.run.seed,
            self.config.world.roles,
            self.config.learner,
            self.config.rollout,
            league,
            worker.version(),
        )
        report = worker.last_report()
        schedule.recover(self.buffer, {} if report is None else report.topped_up)
        pool = InstantPool(self.config, self.buffer, self.zero_variance, worker.version(), polls)
        pool.late = set(late)
        nothing = lambda *_: None  # noqa: E731
        progress = SimpleNamespace(
            display=SimpleNamespace(log=self.log.append),
            update=lambda report, *_: self.reports.append(report) or pool.late.clear(),
            **dict.fromkeys(("training_begins", "training_ends", "played", "swaps", "engine", "workers"), nothing),
            overlapped=nothing,
        )
        learner = SimpleNamespace(
            heartbeat=Remote(lambda: None), collect=Remote(worker.collect), update=Remote(worker.update)
        )
        parts: Any = (self.config, self.folder, learner, (), pool, schedule, league, progress)
        with league:
            learn(TrainingRun(*parts, ServerWatch({}, 900.0, self.log.append), worker.version()))
        return pool

    def used(self) -> list[list[str]]:
        """Episodes of each update, from the audit."""
        return [json.loads(path.read_text())["episodes"] for path in sorted(self.folder.audit.glob("[0-9]*.json"))]

    def weights(self) -> dict[str, np.ndarray]:
        return load((self.folder.checkpoints / "3" / "model.safetensors").read_bytes())


@pytest.fixture(autouse=True)
def _without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.driver.learner_update, "get_answer", lambda ref, *_: ref)
    monkeypatch.setattr(cluster.driver.heartbeat, "_answered", lambda *_: True)
    # Nothing is played with the published weights here, so no engine compares them with a probe.
    monkeypatch.setattr(grpo_core.learner, "make_probe", lambda *_, **__: Probe((), (), (), ()))


def zero_variance_first(country: str, then_extra: int = 0) -> Any:
    """The first scheduled block of a country has zero variance, and so have the first extra blocks."""

    def zero_variance(block: LineupBlock) -> bool:
        number = (block.index - EXTRA_BLOCKS_FROM) // len(POWERS)
        return block.role == country and (
            block.index < len(POWERS) if block.index < EXTRA_BLOCKS_FROM else number < then_extra
        )

    return zero_variance


def assert_each_used_once(run: Run, extra: int) -> None:
    episodes = [episode for ids in run.used() for episode in ids]
    assert len(episodes) == len(set(episodes)) == 3 * 14 + extra
    stats = run.buffer.stats()
    assert (stats["waiting"], stats["delivered"], stats["acknowledged"]) == (0, 0, len(episodes))


@pytest.mark.parametrize("max_staleness", [0, 1])
def test_zero_variance_blocks_are_replaced_even_if_admission_has_no_room(tmp_path: Path, max_staleness: int) -> None:
    run = Run(tmp_path / "run", zero_variance_first("FRANCE", then_extra=1), f"rollout.max_staleness={max_staleness}")
    pool = run.drive()
    assert [block.role for block in pool.started if block.index >= EXTRA_BLOCKS_FROM] == ["FRANCE"] * 2
    assert_each_used_once(run, 4)
    # With room to run ahead, the first extra block comes after the next update's, which is taken in its stead.
    assert [report.topped_up_episodes for report in run.reports] == ([4, 0, 0] if max_staleness == 0 else [2, 2, 0])
    assert run.reports[-1].topped_up == {"FRANCE": 2}
    assert all(report.stale_episodes == 0 for report in run.reports)
    assert run.log == []


def test_without_dynamic_sampling_every_update_uses_its_own_blocks(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", zero_variance_first("FRANCE"), "learner.top_up_episodes=0")
    run.drive()
    assert_each_used_once(run, 0)
    assert [len(ids) for ids in run.used()] == [14, 14, 14]


def test_bound_on_extra_episodes_is_kept_and_reported(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", lambda block: block.role in ("FRANCE", "ITALY"), "rollout.max_staleness=0")
    run.drive()
    assert_each_used_once(run, 3 * 4)
    assert [len(ids) for ids in run.used()] == [18, 18, 18]
    assert len(run.log) == 3
    assert "update 1 goes on" in run.log[0]
    assert "learner.top_up_episodes" in run.log[0]
    for ids in run.used():  # both countries share what the bound leaves
        assert Counter(POWERS[int(e[1:].split("/")[0]) % 7] for e in ids if e > "b7") == {"FRANCE": 2, "ITALY": 2}


def test_a_late_extra_block_is_reported_and_used_by_the_next_update(tmp_path: Path) -> None:
    run = Run(
        tmp_path / "run", zero_variance_first("FRANCE"), "rollout.max_staleness=0", "learner.top_up_timeout_s=0.001",
    )  # fmt: skip
    late = EXTRA_BLOCKS_FROM + POWERS.index("FRANCE")
    run.drive(late=frozenset({late}))
    assert "top_up_timeout_s" in run.log[0]
    assert "1 of FRANCE" in run.log[0]
    # It is too old by then and set aside, but off the buffer: later blocks of the country do not wait behind it.
    assert [len(ids) for ids in run.used()] == [14, 14, 14]
    assert [report.stale_episodes for report in run.reports] == [0, 2, 0]
    assert run.reports[-1].topped_up == {"FRANCE": 1}
    assert run.buffer.stats()["waiting"] == 0


def test_a_driver_death_at_any_point_leads_to_the_same_weights(tmp_path: Path) -> None:
    zero_variance = zero_variance_first("FRANCE", then_extra=1)
    overrides = ("rollout.max_staleness=0", "learner.checkpoint_every=2")
    whole = Run(tmp_path / "whole", zero_variance, *overrides)
    polls = 200 - whole.drive().polls
    weights = whole.weights()
    for crash in (7, 8, 9, 11, polls - 1):  # around the collections of the first update, and in the last
        run = Run(tmp_path / f"crash{crash}", zero_variance, *overrides)
        with pytest.raises(CrashError):
            run.drive(polls=crash)
        run.drive()
        assert run.used() == whole.used(), crash
        assert_each_used_once(run, 4)
        for name, value in run.weights().items():
            np.testing.assert_array_equal(value, weights[name])


@pytest.mark.parametrize("seed", [3, 5, 8, 10, 30])
def test_a_run_that_dies_repeatedly_uses_every_block_once_and_keeps_the_bound(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    most, share, timeout_s = rng.choice([2, 4, 8]), rng.choice([0.3, 0.6, 0.95]), rng.choice([600, 0.001])
    run = Run(
        tmp_path / "run",
        lambda block: random.Random(f"{seed} {block.index}").random() < share,
        f"learner.top_up_episodes={most}",
        f"rollout.max_staleness={rng.choice([0, 1, 2])}",
        f"learner.checkpoint_every={rng.choice([1, 2])}",
        f"learner.top_up_timeout_s={timeout_s}",
    )
    late = frozenset(rng.sample(range(EXTRA_BLOCKS_FROM, EXTRA_BLOCKS_FROM + 14), 3 if timeout_s < 1 else 0))
    for polls in (rng.randint(5, 40), rng.randint(5, 40)):
        with suppress(CrashError):
            run.drive(polls, late)
    run.drive(3000, late)
    episodes = [episode for ids in run.used() for episode in ids]
    assert len(episodes) == len(set(episodes))
    audits = [json.loads(path.read_text()) for path in sorted(run.folder.audit.glob("[0-9]*.json"))]
    delivered = [len(audit["episodes"]) + len(audit["set_aside"]) for audit in audits]
    assert len(delivered) == 3
    assert all(14 <= count <= 14 + most for count in delivered)
    stats = run.buffer.stats()
    assert (stats["delivered"], stats["acknowledged"]) == (0, sum(delivered))


def test_a_missing_update_raises_an_error_that_names_what_was_awaited(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", lambda _: False, "rollout.update_timeout_s=0.02")
    with pytest.raises(LateError, match=r"no update .* version 0: waiting for blocks of \{.* games in flight"):
        run.drive(1000, late=frozenset(range(100)))
