import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from cluster.bench import suite
from cluster.bench.figure import Figure
from cluster.bench.learner import trl_step
from cluster.bench.learner.batches import LONGEST_TURN, ragged_episodes
from cluster.bench.learner.trl_step import TRL_ROWS, trl_inputs
from cluster.errors import RunError

FREE = {"loss": 0.5, "grad_norm": 2.0}


def test_padded_passes_hold_every_turn() -> None:
    episodes = trl_step.side_episodes("trl", 800, 2)
    passes = trl_inputs(episodes)
    turns = [turn for episode in episodes for turn in episode.turns]
    assert len(passes) == len(turns) // TRL_ROWS
    assert passes[0]["prompt_ids"].shape[1] + passes[0]["completion_ids"].shape[1] <= LONGEST_TURN
    rows = [{name: tensor[row] for name, tensor in inputs.items()} for inputs in passes for row in range(TRL_ROWS)]
    for turn, row in zip(turns, rows, strict=True):
        kept = row["completion_mask"].bool()
        assert row["prompt_ids"][row["prompt_mask"].bool()].tolist() == turn.prompt_ids.tolist()
        assert row["prompt_mask"][-1] == 1  # padded on the left
        assert row["completion_mask"][0] == 1  # and here on the right
        assert row["completion_ids"][kept].tolist() == turn.completion_ids.tolist()
        assert row["tool_mask"][kept].tolist() == turn.trained_mask.astype(int).tolist()
        assert row["tool_mask"][~kept].sum() == 0
        assert np.array_equal(row["old_per_token_logps"][kept].numpy(), turn.logprobs)


def test_turns_that_do_not_fill_the_passes_raise() -> None:
    first, second = ragged_episodes(2)
    with pytest.raises(ValueError, match="13 turns"):
        trl_inputs((first, dataclasses.replace(second, turns=second.turns[:3])))


@pytest.mark.parametrize("theirs", [FREE | {"loss": 0.51}, FREE | {"grad_norm": 2.01}])
def test_differing_sides_raise(theirs: dict[str, float]) -> None:
    trl_step.check_agreement({"free": FREE, "masked": {}, "trl": FREE, "trl_completions": FREE})
    with pytest.raises(RuntimeError, match="cannot be compared"):
        trl_step.check_agreement({"free": FREE, "trl": FREE, "trl_completions": theirs})


def test_without_trl_the_suite_names_the_package_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "trl", None)  # as if it were not installed
    after = Figure("after", "s", 1.0, 2.0, "nothing", lower_is_better=True)
    monkeypatch.setattr("cluster.bench.learner.head.run", lambda rounds: [after])
    monkeypatch.setattr(suite, "SUITE", {name: suite.SUITE[name] for name in ("trl_step", "head")})
    suite.run_suite((), 1, tmp_path / "bench.json")
    printed = [line for line in capsys.readouterr().out.splitlines() if "pip install" in line]
    assert len(printed) == 1
    assert printed[0].startswith("trl_step skipped: TRL is not installed")
    written = json.loads((tmp_path / "bench.json").read_text())
    assert [figure["name"] for figure in written["figures"]] == ["after"]
    assert "pip install" in written["skipped"]["trl_step"]


def test_suites_named_together_are_each_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def measure(name: str) -> list[Figure]:
        measured.append(name)
        return [Figure(name, "1/s", 2.0, 1.0, "nothing")]

    for name in ("head", "learner", "engine"):
        monkeypatch.setattr(f"cluster.bench.{suite.SUITE[name]}.run", lambda rounds, name=name: measure(name))
    suite.run_suite(("learner, head", "engine,learner"), 2, tmp_path / "bench.json")
    assert measured == ["learner", "head", "engine"]
    assert json.loads((tmp_path / "bench.json").read_text())["command"] == (
        "entente bench --only learner,head,engine --rounds 2"
    )
    with pytest.raises(RunError, match="no benchmark is called 'heads'; there are game_loop"):
        suite.run_suite(("learner,heads",), 1, tmp_path / "bench.json")
