"""Whole blocks that cannot be read: skipped once each, or others are played where an update has no other block."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

import cluster.actors.batch_collector
import cluster.driver.learner_update
from cluster.actors.batch_collector import BatchCollector
from cluster.driver.learner_update import MAX_REPLACED
from grpo_core.types import Episode
from opponents.matchmaking.lineup import EXTRA_BLOCKS_FROM, block_name
from services.environments.diplomacy.position import POWERS
from services.replay.buffer import NAMELESS, BlocksMissingError, UnreadableError
from services.replay.memory_buffer import MemoryBuffer
from tests.unit.cluster.driver.test_dynamic_sampling import CrashError, Remote, Run
from tests.unit.cluster.driver.test_dynamic_sampling import _without_ray as _without_ray

ONE_BLOCK = ("learner.episodes_per_update=2", "learner.top_up_episodes=0", "rollout.max_staleness=0")


class DamagedBuffer(MemoryBuffer):
    """Stores the episodes of some blocks so that nothing can read them; ``nameless``: not even their ids."""

    def __init__(self, damaged: Collection[str], *, nameless: bool = False) -> None:
        super().__init__(group_timeout_s=60)
        self.damaged = set(damaged)
        self.nameless = nameless
        self.set_aside: dict[str, set[str]] = {}

    def append(self, episodes: Sequence[Episode]) -> int:
        for episode in episodes:
            if episode.block_id in self.damaged:
                self._ever_stored.add(episode.episode_id)
                name = f"{NAMELESS}{len(self._ever_stored)}-0" if self.nameless else episode.episode_id
                self.set_aside.setdefault(episode.role, set()).add(name)
        return super().append([episode for episode in episodes if episode.block_id not in self.damaged])

    def unreadable_ids(self, role: str) -> frozenset[str]:
        return frozenset(self.set_aside.get(role, ()))


@pytest.fixture(autouse=True)
def _answers_with_errors(monkeypatch: pytest.MonkeyPatch, _without_ray: None) -> None:
    """Let a learner's method return its error, which its caller raises, as Ray does."""

    def remote(method: Remote, *arguments: Any) -> Any:
        try:
            return method.method(*arguments)
        except UnreadableError as error:
            return [error, None]

    def get_answer(ref: Any, *_: object) -> Any:
        if isinstance(ref, Exception):
            raise ref
        return ref

    monkeypatch.setattr(cluster.actors.batch_collector, "FIRST_LOOK_S", 0.01)
    monkeypatch.setattr(Remote, "remote", remote)
    monkeypatch.setattr(cluster.driver.learner_update, "get_answer", get_answer)


def run_with(path: Path, buffer: DamagedBuffer, *overrides: str) -> Run:
    run = Run(path, lambda block: False, *overrides)
    run.buffer = buffer
    return run


@pytest.mark.parametrize(
    ("index", "staleness", "nameless"),  # of 21 blocks, seven an update
    [(0, 0, True), (6, 0, False), (6, 0, True), (6, 1, False), (6, 1, True), (20, 1, False)],
)
def test_a_run_skips_a_damaged_block_once_in_every_update(
    tmp_path: Path, index: int, staleness: int, nameless: bool
) -> None:
    buffer = DamagedBuffer([block_name(index)], nameless=nameless)
    run = run_with(tmp_path / "run", buffer, "learner.top_up_episodes=0", f"rollout.max_staleness={staleness}")
    run.drive()
    used = [name for update in run.used() for name in update]
    assert len(used) == len(set(used)) == 3 * 14 - 2
    assert not {name for name in used if name.startswith(block_name(index))}
    assert buffer.stats()["waiting"] == 0


def test_a_resumed_run_skips_a_block_that_was_damaged_at_its_former_end(tmp_path: Path) -> None:
    buffer = DamagedBuffer([block_name(20)])
    run = run_with(tmp_path / "run", buffer, "learner.top_up_episodes=0")
    run.drive()
    run.config = run.config.model_copy(update={"learner": run.config.learner.model_copy(update={"updates": 4})})
    run.drive()
    assert [len(update) for update in run.used()] == [14, 14, 12, 14]


def test_another_block_is_played_where_an_update_has_only_a_damaged_one(tmp_path: Path) -> None:
    damaged = [block_name(index) for index in range(3)]  # of all three updates
    run = run_with(tmp_path / "run", DamagedBuffer(damaged), *ONE_BLOCK)
    pool = run.drive()
    assert [len(update) for update in run.used()] == [2, 2, 2]
    extra = [block for block in pool.started if block.index >= EXTRA_BLOCKS_FROM]
    assert [block.role for block in extra] == [block.role for block in pool.started if block not in extra]
    assert [line.split(";")[1] for line in run.log] == [" others are played in their place"] * 3
    assert sum(run.reports[-1].topped_up.values()) == 3


@pytest.mark.parametrize("polls", [1, 2, 3, 4])
def test_a_driver_that_dies_while_blocks_are_replaced_goes_on(tmp_path: Path, polls: int) -> None:
    damaged = DamagedBuffer([block_name(0), block_name(2)])
    run = run_with(tmp_path / "run", damaged, *ONE_BLOCK, "learner.checkpoint_every=2")
    with pytest.raises(CrashError):
        run.drive(polls=polls)
    run.drive()
    assert [len(update) for update in run.used()] == [2, 2, 2]
    used = [name for update in run.used() for name in update]
    assert len(set(used)) == 6


def test_a_run_ends_when_nothing_that_is_played_can_be_read(tmp_path: Path) -> None:
    class Unreadable(DamagedBuffer):
        def append(self, episodes: Sequence[Episode]) -> int:
            self.damaged |= {episode.block_id for episode in episodes}
            return super().append(episodes)

    run = run_with(tmp_path / "run", Unreadable([]), *ONE_BLOCK)
    with pytest.raises(UnreadableError, match="none of the blocks can be read: all were set aside as poison"):
        run.drive()
    assert len(run.log) == MAX_REPLACED


def test_unreadable_episodes_without_an_id_excuse_as_many_blocks_as_they_fill(tmp_path: Path) -> None:
    buffer = DamagedBuffer([block_name(0)], nameless=True)
    power = POWERS[0]
    buffer.set_aside[power] = {f"{NAMELESS}1-0"}
    collector = BatchCollector(buffer, num_generations=2, max_staleness=1, top_up_episodes=0)
    with pytest.raises(BlocksMissingError, match="lacks 1 block"):
        collector.take({power: 1}, 0.01)
    buffer.set_aside[power].add("b000009/1")
    with pytest.raises(UnreadableError):
        collector.take({power: 1}, 0.01)
    with pytest.raises(BlocksMissingError, match="lacks 1 block") as raised:  # both are skipped now
        collector.take({power: 1}, 0.01)
    assert not isinstance(raised.value, UnreadableError)
    collector.clear()
    assert collector.excused_blocks == [f"{NAMELESS}1-0", "b000009"]
