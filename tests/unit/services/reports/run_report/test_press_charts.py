"""The section on press of a run's page, and the evaluations whose letters were withheld."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest

from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.reports.run_report import data, run_report
from services.reports.run_report.all_charts import all_charts
from tests.unit.services.reports.game_viewer.test_press import Story
from tests.unit.services.reports.run_report.test_run_report import evaluation, make_run

WORLD = Diplomacy(GameSettings(press_rounds=2))
MEASURED = WORLD.measured


def press_run(folder: Path) -> Path:
    rows = [
        {**evaluation("checkpoints/6", "honest", centers), "label": label}
        for label, centers in (("trained", 6.0), ("muted", 4.0))
    ]
    make_run(folder, {"evaluations": rows})
    lines = []
    for update in range(1, 7):
        honesty = {f"entente_country_honesty{{country={role}}}": update / 6 for role in MEASURED.roles}
        promises = {f"entente_country_promises{{country={role}}}": 3.0 for role in MEASURED.roles}
        given = {f"entente_country_cross_supports{{country={role}}}": 0.5 for role in MEASURED.roles}
        lines.append({"update": update, "time": 0, "metrics": {**honesty, **promises, **given}})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_the_charts_of_press_are_means_over_countries(tmp_path: Path) -> None:
    made = {chart["id"]: chart for chart in all_charts(data.load_run(press_run(tmp_path), MEASURED))}
    assert {name for name in made if name.startswith("press-")} == {"press-honesty", "press-supports", "press-promises"}
    own, partners = made["press-honesty"]["traces"]
    assert own["x"] == [1, 2, 3, 4, 5, 6]
    assert own["y"][1] == pytest.approx(2 / 6)
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


def test_pairs_and_alliances_are_of_all_saved_games(tmp_path: Path) -> None:
    run = data.load_run(press_run(tmp_path), MEASURED)
    stories = [
        Story(pairs={("FRANCE", "ITALY"): (1, 1, 0, 9)}, alliances={1901: ["Leviathan"], 1902: []}),
        Story(pairs={("FRANCE", "ITALY"): (2, 0, 0, 9), ("ITALY", "FRANCE"): (0, 0, 0, 9)}, alliances={1901: []}),
    ]
    made = {chart["id"]: chart for chart in all_charts(run, stories=stories)}
    (heat,) = made["press-pairs"]["traces"]
    cells = {
        (giver, partner): heat["z"][row][column]
        for row, giver in enumerate(heat["y"])
        for column, partner in enumerate(heat["x"])
    }
    assert {pair: share for pair, share in cells.items() if share is not None} == {("France", "Italy"): 0.75}
    (stood,) = made["press-alliances"]["traces"]
    assert (stood["name"], stood["x"], stood["y"]) == ("Leviathan", [1901, 1902], [0.5, 0])
    assert stood["say"].endswith("0.5 in year 1901, 0 in year 1902")
    assert "press-pairs" not in {chart["id"] for chart in all_charts(run, stories=[Story(pairs={})])}


def test_saved_games_are_read_once_for_charts_and_pages(tmp_path: Path) -> None:
    run = press_run(tmp_path)
    told: list[str] = []

    def tell(document: object, name: str) -> Story:
        told.append(Path(name).name)
        return Story()

    game = WORLD.new_game("", "FRANCE", 0)
    for power in ("FRANCE", "ITALY"):
        (run / "games" / "trained-honest").mkdir(parents=True, exist_ok=True)
        game.save(run / "games" / "trained-honest" / f"{power}.json")
    (run / "games" / "trained-honest" / "RUSSIA.json").write_text("{}")
    text = run_report.write_report(run, MEASURED, tell_press=tell).read_text()
    assert sorted(told) == ["FRANCE.json", "ITALY.json"]
    assert "Promises kept, by pair" in text
    assert "In the 2 saved games of the last evaluations" in text
    page = (run / "games" / "trained-honest" / "FRANCE.html").read_text()
    assert '"Leviathan"' in page
