"""The comparison of game lengths: with and without faults, and of what was left out."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.actors.learner_metrics import game_length
from cluster.drill.lengths import LOWEST_P, Lengths, compare
from services.replay.codec import encode
from services.replay.synthetic_episodes import synthetic_episode


def run_with(path: Path, trained: Sequence[float], set_aside: Sequence[float] = ()) -> Path:
    """A run of one update that learned from games of these lengths."""
    (path / "audit").mkdir(parents=True)
    record = {"lengths": list(trained), "set_aside_lengths": list(set_aside)}
    (path / "audit" / "000001.json").write_text(json.dumps(record))
    return path


def lengths(seed: int, *, longest: int = 22, games: int = 1500) -> list[float]:
    rng = random.Random(seed)
    return [float(min(longest, 13 + rng.randrange(5) + rng.randrange(5))) for _ in range(games)]


def test_the_same_games_pass(tmp_path: Path) -> None:
    episode = synthetic_episode("b0", 0, turns=3)
    late = replace(episode, outcome={**episode.outcome, "phases": 21.0})
    run = run_with(tmp_path / "run", lengths(1), [20.0])
    found = compare(run, [encode(late), b"damaged"], run_with(tmp_path / "undisturbed", lengths(2)))
    assert found.check().passed
    assert found.p_value > LOWEST_P
    assert found.trained.episodes == found.undisturbed.episodes == 1500
    assert found.trained.mean == pytest.approx(17, abs=0.3)
    assert sum(found.trained.counts.values()) == 1500
    assert list(found.trained.counts) == sorted(found.trained.counts, key=float)
    assert found.left_out == Lengths(2, 20.5, {"20": 1, "21": 1})
    assert "1,500 games trained" in found.check().found


def test_a_run_that_loses_its_long_games_fails(tmp_path: Path) -> None:
    short = [length for length in lengths(1) if length < 19]
    found = compare(run_with(tmp_path / "run", short), [], run_with(tmp_path / "undisturbed", lengths(2)))
    assert not found.check().passed
    assert found.trained.mean < found.undisturbed.mean


def test_a_run_without_games_fails(tmp_path: Path) -> None:
    found = compare(run_with(tmp_path / "run", []), [], run_with(tmp_path / "undisturbed", lengths(2)))
    assert not found.check().passed
    assert found.trained == Lengths(0, 0.0, {})


def test_a_games_length_is_in_phases_or_in_turns() -> None:
    episode = synthetic_episode("b0", 0, turns=3)
    assert game_length(episode) == 3.0
    assert game_length(replace(episode, outcome={"phases": 17.0})) == 17.0
    assert game_length(replace(episode, outcome={})) == 3.0
