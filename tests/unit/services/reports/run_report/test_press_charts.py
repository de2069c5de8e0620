"""The section on press of a run's page, and the evaluations whose letters were withheld."""

from __future__ import annotations

import html
import json
from pathlib import Path

from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.reports.run_report import data, run_report
from services.reports.run_report.all_charts import all_charts
from tests.unit.services.reports.run_report.test_run_report import evaluation, make_run

MEASURED = Diplomacy(GameSettings(press_rounds=2)).measured


def press_run(folder: Path) -> Path:
    rows = [
        {**evaluation("checkpoints/6", "honest", centers), "label": label}
        for label, centers in (("trained", 6.0), ("muted", 4.0))
    ]
    make_run(folder, {"evaluations": rows})
    lines = []
    for update in range(1, 7):
        honesty = {f"entente_country_honesty{{country={role}}}": update / 6 for role in MEASURED.roles}
        given = {f"entente_country_cross_supports{{country={role}}}": 0.5 for role in MEASURED.roles}
        lines.append({"update": update, "time": 0, "metrics": {**honesty, **given}})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_the_charts_of_press_are_means_over_countries(tmp_path: Path) -> None:
    made = {chart["id"]: chart for chart in all_charts(data.load_run(press_run(tmp_path), MEASURED))}
    assert {name for name in made if name.startswith("press-")} == {"press-honesty", "press-supports"}
    own, partners = made["press-honesty"]["traces"]
    assert own["x"] == [1, 2, 3, 4, 5, 6]
    assert own["y"][1] == 2 / 6
    assert not partners.get("y")


def test_muted_evaluations_are_named_and_are_no_part_of_the_course(tmp_path: Path) -> None:
    run = data.load_run(press_run(tmp_path), MEASURED)
    assert [row["label"] for row in run.course] == ["trained"]
    (bars,) = [chart for chart in all_charts(run) if chart["id"] == "against-honest"]
    assert [trace["name"] for trace in bars["traces"]] == [
        "trained (checkpoints/6)", "after, letters withheld (checkpoints/6)"
    ]  # fmt: skip
    text = html.unescape(run_report.write_report(run.folder, MEASURED).read_text())
    assert '<section id="press"' in text
    assert "checkpoints/6, muted" in text


def test_runs_without_press_have_no_such_section(tmp_path: Path) -> None:
    without = Diplomacy(GameSettings()).measured
    assert '<section id="press"' not in run_report.write_report(make_run(tmp_path), without).read_text()
