"""A run folder from elsewhere: each of its files is read with its types, and a damaged one is named in one line."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from cluster.actors.audit_batch import load_last_batch
from cluster.actors.checkpoint_extra import read_extra
from cluster.cli.app import main
from cluster.configs.loader import dump_config
from cluster.configs.schema import Config
from cluster.driver.run_summary import RunSummary
from cluster.errors import RunError
from cluster.runs.counters import COUNTERS
from cluster.runs.folder import RunFolder, audits, last_update, strict_json
from cluster.runs.imitation_report import REPORT, ImitationReport, read_report
from cluster.runs.restarts import note_restart, restarts
from grpo_core.checkpoints.store import Checkpoint
from grpo_core.errors import CheckpointError, EntenteError
from grpo_core.training.learner_state import LearnerState
from services.metrics.jsonl import read_metrics
from services.reports.run_report.run_report import write_report
from tests.measured import DIPLOMACY

EVALUATION = {
    "label": "untrained", "checkpoint": "checkpoints/0", "against": "random", "games": 7, "until_year": 1902,
    "mean_centers": 3.0, "mean_centers_ci95": None, "by_country": {"FRANCE": {"mean_centers": 3.0, "win_rate": 0.0}},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    found = RunFolder(tmp_path / "run")
    found.audit.mkdir(parents=True)
    found.config.write_text(dump_config(Config()))
    (found.path / "run_id").write_text("run-0f\n")
    (found.path / "format").write_text("2\n")
    found.write_summary({"run": "run", "evaluations": [], "wall_seconds": 1.0})
    return found


def uses(folder: RunFolder) -> dict[str, Callable[[], object]]:
    """How each file of a run is read."""
    return {
        "run_id": lambda: folder.run_id,
        "format": folder.check_format,
        "summary.json": folder.read_summary,
        "metrics.jsonl": lambda: read_metrics(folder.metrics),
        "audit/000001.json": lambda: audits(folder.path),
        "audit/last_batch.bin": lambda: load_last_batch(folder),
        "imitation.json": lambda: read_report(folder.path),
    }


@pytest.mark.parametrize("name", ["run_id", "format", "summary.json", "metrics.jsonl", "audit/000001.json",
                                  "audit/last_batch.bin", "imitation.json"])  # fmt: skip
def test_every_file_of_a_run_is_named_when_it_is_damaged(folder: RunFolder, name: str) -> None:
    path, use = folder.path / name, uses(folder)[name]
    for content in (
        b"\xff\xfe\x00\n\n",
        b"[" * 100_000 + b"\n\n",
        b"\0" * 70_000 + b"\n\n",
        b'{"a": ' + b"1" * 10_000 + b"}\n\n",
    ):
        path.write_bytes(content)
        with pytest.raises(EntenteError, match=path.name) as caught:
            use()
        assert len(str(caught.value)) <= 500
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(EntenteError, match="a FIFO"):
        use()
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(EntenteError, match="a device"):
        use()


def test_a_summary_that_a_run_wrote_is_continued(folder: RunFolder) -> None:
    folder.write_summary({"evaluations": [EVALUATION, {**EVALUATION, "checkpoint": "imitated/untrained"}]})
    assert len(folder.read_summary()["evaluations"]) == 2


def test_a_figure_that_was_not_measured_is_continued(folder: RunFolder) -> None:
    unknown = {"pass_at_8": None, "pass_at_8_ci95": None}
    folder.write_summary({"evaluations": [{**EVALUATION, **unknown, "by_country": {"FRANCE": unknown}}]})
    assert folder.read_summary()["evaluations"][0]["pass_at_8"] is None


@pytest.mark.parametrize(
    "fields",
    [
        {"evaluations": 3},
        {"evaluations": [{}]},
        {"training": []},
        {"games": "x"},
        {"wall_seconds": [1]},
        {"games": 1e999},
        {"evaluations": [{**EVALUATION, "by_country": {"FRANCE": 1}}]},
        {"evaluations": [{**EVALUATION, "checkpoint": 3}]},
        {"evaluations": [{**EVALUATION, "checkpoint": "checkpoints/abc"}]},
        {"evaluations": [{**EVALUATION, "mean_centers": None, "mean_centers_ci95": [3.0, 4.0]}]},
        {"evaluations": [{**EVALUATION, "mean_centers_ci95": [4.0, "x"]}]},
        {"evaluations": [{name: value for name, value in EVALUATION.items() if name != "games"}]},
    ],
)
def test_a_summary_of_other_types_is_not_continued(folder: RunFolder, fields: dict[str, Any]) -> None:
    folder.summary.write_text(json.dumps(fields))
    with pytest.raises(RunError, match="remove it to resume"):
        folder.read_summary()


@pytest.mark.parametrize(
    "name", ["x.json", "-1.json", "1" * 200 + ".json", "²3.json", " 3.json", "1e5.json", "\udcff.json"]
)
def test_only_numbered_records_count_as_updates(folder: RunFolder, name: str) -> None:
    (folder.audit / name).write_text("{}")
    assert last_update(folder.path) == 0
    assert audits(folder.path) == {}


def test_odd_lines_of_restarts_are_left_out_and_shown_without_control_characters(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    note_restart(folder.path, 3, "lost\x1b[31m")
    with (folder.path / "restarts.jsonl").open("ab") as file:
        file.write(b'\xff\n[]\n{"time": "x"}\n' + b"[" * 100_000 + b"\n")
    assert [restart.version for restart in restarts(folder.path)] == [3]
    monkeypatch.setattr(sys, "argv", ["entente", "doctor", "--run", str(folder.path)])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().out
    assert "at update 3: lost" in said
    assert "\x1b" not in said


@pytest.mark.parametrize(
    "summary",
    [
        {"evaluations": 3},
        {"evaluations": [{"mean_centers": 1}]},
        {"throughput": []},
        {"provenance": {"a": {"b": {"c": 1}}}},
        {"evaluations": [{"mean_centers": "x", "against": "random"}]},
        {"run": ["a"]},
        {"wall_seconds": "1"},
        {"evaluations": [{"mean_centers": 1, "against": "random", "mean_centers_ci95": [1, "x"]}]},
        [],
        "x",
    ],
)
def test_a_report_of_a_damaged_summary_is_refused(folder: RunFolder, summary: Any) -> None:
    folder.summary.write_text(json.dumps(summary))
    with pytest.raises(EntenteError, match=r"summary\.json is damaged"):
        write_report(folder.path, DIPLOMACY)


@pytest.mark.parametrize("text", ["grouping = 3", "[" * 100_000, "a = " + "1" * 10_000, "\0"])
def test_a_report_of_a_damaged_configuration_is_refused(folder: RunFolder, text: str) -> None:
    folder.config.write_text(text)
    with pytest.raises(EntenteError, match=r"config\.toml is damaged"):
        write_report(folder.path, DIPLOMACY)


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"countries": {}, "report": 3},
        {"countries": [], "report": None},
        {"countries": {"FRANCE": [[1]]}, "report": None},
        {"countries": {"FRANCE": [[1, 2, 3, 4, 5, "x", "b"]]}, "report": None},
        {"countries": {"FRANCE": [[1] * 20]}, "report": None},
        {"countries": {}, "report": None, "receipts": [["FRANCE"]]},
        {"countries": {}, "report": None, "receipts": [["FRANCE", 3]]},
        {"countries": {}, "report": None, "used": -1},
        {"countries": {}, "report": None, "excused_blocks": 3},
    ],
)
def test_what_a_checkpoint_keeps_for_the_learner_has_its_types(extra: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"trainer_state\.json is damaged"):
        read_extra(Checkpoint(tmp_path, 1, LearnerState({}, {}), extra), DIPLOMACY)


def test_an_older_checkpoint_may_lack_what_was_added_later(tmp_path: Path) -> None:
    facts = {"FRANCE": [[1.0, 2, 0.0, 0.0, 1.0, 9.0]]}  # without the block
    extra = read_extra(Checkpoint(tmp_path, 1, LearnerState({}, {}), {"countries": facts, "report": None}), DIPLOMACY)
    assert (extra.receipts, extra.used, extra.excused_blocks) == ([], None, [])


def test_a_damaged_imitation_report_neither_ends_a_resumed_run_nor_is_forgotten(folder: RunFolder) -> None:
    folder.write_summary({"evaluations": [], "imitation": {"teacher": "dumbbot"}})
    folder.imitated.mkdir()
    (folder.imitated / REPORT).write_text("{")
    RunSummary(folder, "run", "0f", resume_after=1).write(1, dict.fromkeys(COUNTERS, 0.0))
    assert json.loads(folder.summary.read_text())["imitation"] == {"teacher": "dumbbot"}


def test_an_imitation_report_holds_numbers_that_were_not_finite(folder: RunFolder) -> None:
    report = ImitationReport("dumbbot", 1, 0, 10, 2, math.nan, (math.nan, 0.5), 1.0, 1.0, "0f")
    (folder.path / REPORT).write_bytes(strict_json(asdict(report)))
    found = read_report(folder.path)
    assert found is not None
    assert math.isnan(found["nats_before"])
    assert math.isnan(found["nats_after"][0])
    assert found["nats_after"][1] == 0.5
