"""The games that an imitation process refuses, and its precision; tests/system runs the processes themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from cluster.configs.loader import load_config
from cluster.errors import RunError
from cluster.imitation.process import _Rank
from cluster.runs.imitation_report import ImitationTask
from services.environments.diplomacy.game import DiplomacyGame

SMALL = ("policy.hidden_size=32", "policy.layers=1", "imitation.processes=1")


class NullConnection:
    def send(self, message: object) -> None:
        pass


def rank(*settings: str) -> _Rank:
    connection: Any = NullConnection()
    return _Rank(ImitationTask.of(load_config("smoke", [*SMALL, *settings])), 0, connection)


def test_games_in_another_notation_are_refused(tmp_path: Path) -> None:
    game = DiplomacyGame(1901)
    game.set_orders("FRANCE", ("A PAR - BUR",))
    game.process()
    game.save(tmp_path / "0.json")
    saved = json.loads((tmp_path / "0.json").read_text())
    saved["phases"][0]["orders"]["FRANCE"] = ["A PAR-BUR"]
    for name in ("0.json", "1.json"):
        (tmp_path / name).write_text(json.dumps(saved))
    with pytest.raises(RunError, match=r"2 games have 0 decisions to learn from and 0 .* notation of the world"):
        rank(f"imitation.saved_games={tmp_path}").run("", tmp_path / "policy")
    assert not (tmp_path / "policy").exists()


def test_imitation_trains_in_float32_for_any_dtype_of_the_policy() -> None:
    learning = rank("policy.use_peft=true", "policy.dtype=bfloat16", "imitation.games=2")
    assert learning._model is not None
    assert learning._model.dtype == torch.float32
