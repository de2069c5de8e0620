"""Schedules of starts that look at no results."""

from __future__ import annotations

from services.environments.settings import NoSettings
from services.environments.starts import SeededStarts
from tests.unit.services.environments.tiny_world import Tiny


def test_a_start_follows_from_role_and_seed_alone() -> None:
    starts = SeededStarts(lambda role, seed: f"{role}{seed}")
    before = [starts.draw(role, seed) for role in "ABC" for seed in range(5)]
    assert before[:2] == ["A0", "A1"]
    starts.record("A", "A0", [{"points": 1.0}] * 8)
    assert [starts.draw(role, seed) for role in "ABC" for seed in range(5)] == before


def test_there_is_nothing_to_keep_and_nothing_to_show() -> None:
    starts = Tiny(NoSettings()).starts()
    assert starts.state() is None
    assert starts.metrics() == {}
    starts.load_state({"left over": 1})
    assert [starts.draw("A", seed) for seed in range(4)] == ["red", "blue", "red", "blue"]


def test_each_schedule_of_a_world_is_its_own() -> None:
    world = Tiny(NoSettings())
    assert world.starts() is not world.starts()
