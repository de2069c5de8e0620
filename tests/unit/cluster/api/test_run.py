"""A run's folder as an object."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import entente
from cluster.api.rows import Rows
from cluster.configs.loader import dump_config, load_config
from cluster.runs.folder import RunFolder
from opponents.population.population import Population
from services.metrics.jsonl import JsonlSink

EVALUATION = {
    "label": "untrained",
    "checkpoint": "checkpoints/0",
    "against": "random",
    "games": 7,
    "until_year": 1901,
    "mean_centers": 3.5,
    "mean_centers_ci95": None,
    "by_country": {},
}


@pytest.fixture
def run(tmp_path: Path) -> entente.Run:
    """A run that has begun, without results."""
    folder = RunFolder(tmp_path / "run")
    folder.open(load_config("smoke"), resume=False)
    return entente.load_run(folder.path)


def test_a_run_that_has_just_begun_is_empty(run: entente.Run) -> None:
    assert run.config == load_config("smoke")
    assert (dict(run.summary), run.evaluations, run.metrics(), run.checkpoints, run.population) == ({}, [], [], {}, ())


def test_a_run_shows_what_its_files_hold_now(run: entente.Run) -> None:
    folder = RunFolder(run.path)
    folder.write_summary({"run": "smoke", "evaluations": [EVALUATION]})
    assert run.summary["run"] == "smoke"
    assert run.evaluations == [EVALUATION]
    sink = JsonlSink(folder.metrics)
    sink.record(1, {"entente_loss": 0.5})
    sink.close()
    [row] = run.metrics()
    assert (row["update"], row["entente_loss"]) == (1, 0.5)
    assert row["time"] > 0
    population = Population(folder.population)
    population.add_bot("dumbbot")
    population.save()
    assert [member.id for member in run.population] == ["bot/dumbbot"]
    folder.write_summary({"run": "smoke", "evaluations": 3})
    with pytest.raises(entente.EntenteError, match="is damaged"):
        _ = run.evaluations


def test_a_run_is_a_path(run: entente.Run) -> None:
    assert Path(run) == run.path == Path(os.fspath(run))
    assert str(run.path) in repr(run)


@pytest.mark.parametrize("spoil", ["config", "format"])
def test_a_folder_that_cannot_be_read_as_a_run_is_refused(run: entente.Run, spoil: str) -> None:
    if spoil == "config":
        (run.path / "config.toml").write_text(dump_config(run.config).replace("\nupdates = ", "\nupdtes = "))
        expected = "did you mean learner.updates"
    else:
        (run.path / "format").write_text("1\n")
        expected = "has format 1"
    with pytest.raises(entente.EntenteError, match=expected):
        entente.load_run(run.path)


def test_rows_become_a_table_where_pandas_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows([{"update": 1}])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(entente.EntenteError, match="pip install pandas"):
        rows.to_frame()
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=tuple))
    assert rows.to_frame() == ({"update": 1},)
