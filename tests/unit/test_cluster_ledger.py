"""The schedule of blocks and the admission bound."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cluster.actors.reports import BlockReport
from cluster.admission import Admission
from cluster.config import Config, load_config
from cluster.ledger import BlockLedger
from grpo_core.types import Episode
from opponents.matchmaking import Matchmaker
from opponents.population import Population
from services.environments.diplomacy.position import POWERS
from services.replay.memory_buffer import MemoryBuffer

CONFIG = load_config("smoke", ["rollout.num_generations=2", "learner.episodes_per_update=10", "learner.updates=5"])


def ledger_at(version: int, config: Config = CONFIG) -> BlockLedger:
    population = Population(Path("population.json"))
    population.add_bot("random")
    return BlockLedger(config, Matchmaker(population, config.rollout.num_generations, config.run.seed), version)


def test_the_schedule_rotates_countries_and_ends_with_the_run() -> None:
    ledger = ledger_at(0)
    blocks = []
    while ledger.wanted():
        blocks.append(ledger.next_block())
    assert [block.index for block in blocks] == list(range(25))
    assert ledger.started_episodes == 50
    for start in range(0, 21, 7):
        assert {block.learner_power for block in blocks[start : start + 7]} == set(POWERS)
    quotas = [ledger.quota(update) for update in range(5)]
    assert all(sum(quota.values()) == 5 for quota in quotas)


def test_an_update_is_ready_when_its_countries_are_whatever_the_order() -> None:
    ledger = ledger_at(0)
    blocks = [ledger.next_block() for _ in range(5)]
    assert not ledger.ready()
    assert sum(ledger.missing().values()) == 5
    for block in reversed(blocks):
        ledger.finished(BlockReport(block, 2, 2, 0.1))
    assert ledger.ready()
    assert ledger.hand_over() == ledger.quota(0)
    assert ledger.ready()
    assert ledger.hand_over() == {}
    ledger.updated()
    assert not ledger.ready()


def episode(block: str, member: int, role: str) -> Episode:
    return Episode(f"{block}/{member}", "diplomacy", role, block, 2, {}, (), 0.0, {}, {}, 0)


def test_after_a_restart_only_incomplete_blocks_are_played_again() -> None:
    first = ledger_at(0)
    blocks = [first.next_block() for _ in range(6)]
    buffer = MemoryBuffer(group_timeout_s=60)
    for block in blocks:
        members = 1 if block.index == 3 else 2  # block 3 was cut off after one game
        buffer.append([episode(block.block_id, member, block.learner_power) for member in range(members)])
    again = ledger_at(0)
    again.recover(buffer, {})
    assert again.started_episodes == 10
    assert again.next_block().index == 3
    assert again.next_block().index == 6


@given(
    staleness=st.integers(0, 4),
    per_update=st.integers(1, 8),
    version=st.integers(0, 50),
)
def test_admission_bounds_how_far_rollouts_run_ahead(staleness: int, per_update: int, version: int) -> None:
    admission = Admission(per_update * 2, staleness)
    started = 0
    while admission.admits(version, started, 2):
        started += 2
    # The last episode admitted at this version is used by update number (started - 1) // per_update.
    last_used_at = (started - 1) // (per_update * 2)
    assert last_used_at - version == staleness
