"""``entente imitate`` takes its settings from the options, else from the config, else 400 games."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.cli.training import imitate
from cluster.errors import RunError
from cluster.runs.imitation_report import ImitationTask
from services.environments.diplomacy.settings import DiplomacyImitation


def asked(monkeypatch: pytest.MonkeyPatch, **options: Any) -> DiplomacyImitation:
    tasks: list[ImitationTask] = []

    def refuse(task: ImitationTask, folder: Path, stage: object) -> None:
        tasks.append(task)
        raise RunError("settings recorded")

    monkeypatch.setattr("cluster.imitation.launcher.imitate", refuse)
    monkeypatch.setattr("cluster.runtime.stop_signals.stop_at_signals", lambda: None)  # they are this process's own
    with pytest.raises(RunError, match="settings recorded"):
        imitate(out=Path("policy"), **options)
    return tasks[0].settings


def test_number_of_games_comes_from_the_config(monkeypatch) -> None:
    assert asked(monkeypatch, config="beat_dumbbot").games == 600
    assert asked(monkeypatch, config="beat_dumbbot", games=7).games == 7
    assert asked(monkeypatch, config="laptop").games == 400
    assert asked(monkeypatch, config="laptop", teacher="greedy").teacher == "greedy"


def test_imitation_can_use_saved_games_alone_from_a_folder_with_a_numeric_name(monkeypatch) -> None:
    settings = asked(monkeypatch, config="laptop", games=0, saved_games=Path("1914"))
    assert (settings.games, settings.saved_games) == (0, "1914")
    assert asked(monkeypatch, overrides=["imitation.games=0", "imitation.saved_games='x'"]).games == 0
