"""``entente population rate`` takes its bots from the run's evaluations, in any world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cluster.cli.population.population import population_app
from cluster.configs.loader import dump_config, load_config
from cluster.errors import RunError
from cluster.evaluation.ratings import matches


def run_of(world: str, tmp_path: Path, *overrides: str) -> Path:
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.toml").write_text(dump_config(load_config({"task": {"name": world}}, overrides)))
    return run


@pytest.mark.parametrize(
    ("world", "overrides", "arguments", "names"),
    [
        ("kuhn", (), (), ["random"]),
        ("diplomacy", ("evaluation.final_against=['greedy']",), (), ["random", "greedy"]),
        ("diplomacy", (), ("--against", "dumbbot, hold"), ["dumbbot", "hold"]),
        ("diplomacy", (), ("--against", ""), []),
    ],
)
def test_the_bots_of_the_evaluations_play_unless_others_are_named(
    world: str,
    overrides: tuple[str, ...],
    arguments: tuple[str, ...],
    names: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def record(_run: Path, *, against: list[str], **_others: Any) -> None:
        asked.append(against)
        raise RunError("seen")

    monkeypatch.setattr(matches, "rate", record)
    result = CliRunner().invoke(population_app, ["rate", str(run_of(world, tmp_path, *overrides)), *arguments])
    assert asked == [names], result.output
    assert str(result.exception) == "seen"


def test_games_without_opponents_have_no_ratings(tmp_path: Path) -> None:
    result = CliRunner().invoke(population_app, ["rate", str(run_of("word_problems", tmp_path))])
    assert isinstance(result.exception, RunError)
    assert str(result.exception) == "the games of word_problems have no opponents, so there are no ratings"
