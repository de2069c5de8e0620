"""What ``entente imitate`` is asked to do: the options, else what the config says, else 400 games."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.cli.training import imitate
from cluster.configs.schema import Config
from cluster.configs.sections import ImitationSettings
from cluster.errors import RunError


def asked(monkeypatch: pytest.MonkeyPatch, **options: Any) -> ImitationSettings:
    heard: list[Config] = []

    def refuse(config: Config, folder: Path, stage: object) -> None:
        heard.append(config)
        raise RunError("enough is known")

    monkeypatch.setattr("cluster.imitation.launcher.imitate", refuse)
    with pytest.raises(RunError, match="enough"):
        imitate(out=Path("policy"), **options)
    return heard[0].imitation


def test_a_config_that_says_how_many_games_is_heeded(monkeypatch) -> None:
    assert asked(monkeypatch, config="beat_dumbbot").games == 600
    assert asked(monkeypatch, config="beat_dumbbot", games=7).games == 7
    assert asked(monkeypatch, config="laptop").games == 400
    assert asked(monkeypatch, config="laptop", teacher="greedy").teacher == "greedy"


def test_saved_games_alone_and_from_a_folder_whose_name_is_a_number(monkeypatch) -> None:
    settings = asked(monkeypatch, config="laptop", games=0, saved_games=Path("1914"))
    assert (settings.games, settings.saved_games) == (0, "1914")
    assert asked(monkeypatch, overrides=["imitation.games=0", "imitation.saved_games='x'"]).games == 0
