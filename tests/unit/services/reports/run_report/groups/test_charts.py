from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.reports.run_report.all_charts import all_charts
from services.reports.run_report.charts.chart import words
from services.reports.run_report.data import RunData, load_run
from services.reports.run_report.run_report import write_report
from tests.long_run import audit, long_run
from tests.measured import DIPLOMACY, TOPICS


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return load_run(long_run(tmp_path_factory.mktemp("long") / "run", 12), DIPLOMACY)


def charts_of(run: RunData) -> dict[str, Any]:
    return {chart["id"]: chart for chart in all_charts(run)}


def when(chart: Any, **chosen: str) -> list[Any]:
    return [trace for trace in chart["traces"] if trace.get("when") == chosen]


def test_box_plots_have_the_quantiles_of_the_update(run: RunData) -> None:
    rng = np.random.default_rng(0)
    records = [audit(rng, update, 56) for update in range(1, 13)]  # as the run was made
    made = charts_of(run)
    [box] = [trace for trace in when(made["advantages-roles"], frame="7") if trace["name"] == "Italy"]
    quantiles = records[6]["distributions"]["advantages"]["roles"]["ITALY"]["quantiles"]
    parts = ("lowerfence", "q1", "median", "q3", "upperfence")
    assert [box[part] for part in parts] == [[value] for value in quantiles[1:-1]]
    [course] = when(made["advantages-updates"], role="")
    assert course["x"] == list(range(1, 13))
    assert course["median"][6] == records[6]["distributions"]["advantages"]["all"]["quantiles"][3]


def test_histograms_are_shares_of_all_samples_and_of_a_role(run: RunData) -> None:
    chart = charts_of(run)["histogram-returns"]
    [whole], [own] = when(chart, frame="12"), when(chart, frame="12", role="TURKEY")
    assert sum(whole["y"]) == pytest.approx(1)
    assert sum(own["y"]) == pytest.approx(1)
    middle = np.average(own["x0"] + own["dx"] * np.arange(len(own["y"])), weights=own["y"])
    assert middle == pytest.approx(6 / 5 + 12 / 500, abs=0.3), "Turkey's returns are the highest"


def test_the_heat_map_has_a_row_a_role_or_group_and_a_column_an_update(run: RunData) -> None:
    chart = charts_of(run)["groups-map"]
    [whole] = when(chart, role="", value="mean")
    assert whole["y"][::-1] == ["Austria", "England", "France", "Germany", "Italy", "Russia", "Turkey"]
    [own] = when(chart, role="ITALY", value="std")
    assert own["y"][::-1][:3] == ["S1901M", "F1901M", "S1902M"]
    groups = {tuple(group.key): group.std for group in run.audits[4].groups}
    assert own["z"][-1][4] == groups["ITALY", "S1901M"]
    assert np.array(own["z"]).shape == (16, 12)
    assert {trace["when"]["value"] for trace in chart["traces"]} == {"mean", "std", "zero", "judged", "advantage"}


def test_shares_of_the_update_add_up_to_one(run: RunData) -> None:
    made = charts_of(run)
    shares = np.array([trace["y"] for trace in made["weights-shares"]["traces"]])
    assert shares.shape == (7, 12)
    assert shares.sum(axis=0) == pytest.approx(1)
    weights = {trace["name"]: trace["y"] for trace in made["weights-groups"]["traces"]}
    assert weights["France"][2] == run.audits[2].group_weights["FRANCE"]


def test_every_chart_has_a_sentence_and_its_main_figures_in_words(run: RunData) -> None:
    for chart in all_charts(run):
        assert chart["note"].endswith("."), chart["id"]
        text = words(chart, {"role": "", "frame": "12", "value": "mean"})
        assert text.startswith(chart["title"])
        assert any(letter.isdigit() for letter in text.removeprefix(chart["title"])), chart["id"]


def without(folder: Path, *names: str) -> Path:
    """The run as one of an earlier version wrote it."""
    for path in (folder / "audit").glob("*.json"):
        record = json.loads(path.read_text())
        path.write_text(json.dumps({name: value for name, value in record.items() if name not in names}))
    return folder


NEWER = ("distributions", "roles", "rewards", "outcomes")


def test_a_run_recorded_before_says_so(tmp_path: Path) -> None:
    folder = without(long_run(tmp_path / "run", 3), *NEWER)
    text = write_report(folder, DIPLOMACY).read_text().split("<main>")[1].split("</main>")[0]
    assert "This run was recorded before audit records kept the distributions" in text
    assert "this run was recorded before single rewards were kept" in text
    assert 'id="groups-map"' in text
    assert 'id="histogram-returns"' not in text


@pytest.mark.parametrize("role", ["FRANCE", "elsewhere"])
def test_a_run_of_one_update_and_one_episode_has_a_page(tmp_path: Path, role: str) -> None:
    (tmp_path / "audit").mkdir()
    cell = {"count": 1, "mean": 0.0, "std": 0.0, "mean_abs": 0.0, "quantiles": [0.0] * 7, "first": 0, "bins": [1]}
    spreads = {"width": 1.0, "roles": {role: cell}, "all": cell}
    group = {
        "key": [role],
        "level": "running",
        "size": 1,
        "judged": 1,
        "mean": None,
        "std": None,
        "zero_variance": True,
    }
    record = {"version": 1, "keys": ["country"], "groups": [group], "metrics": {"zero_variance_fraction": None},
              "distributions": {"returns": spreads, "advantages": spreads}, "roles": [role], "rewards": [None],
              "episodes": ["b000000/0"], "outcomes": {"centers": [None]}}  # fmt: skip
    (tmp_path / "audit" / "000001.json").write_text(json.dumps(record))
    (tmp_path / "summary.json").write_text("{}")
    text = write_report(tmp_path, DIPLOMACY).read_text().split("<main>")[1]
    assert "NaN" not in text.split("<script")[0]
    assert '"histogram-advantages"' in text


EVIL = "<img src=x onerror=alert(1)>"


def test_names_from_records_are_no_markup(tmp_path: Path) -> None:
    folder = long_run(tmp_path / "run", 2, episodes=7)
    for path in (*(folder / "audit").iterdir(), folder / "lineups.jsonl"):
        text = path.read_text().replace("ITALY", EVIL).replace("S1902M", EVIL * 50).replace("bot/dumbbot", EVIL)
        path.write_text(text.replace("country+phase", f"country+{EVIL}"))
    page = write_report(folder, DIPLOMACY).read_text()
    assert "<img" not in page.split("<main>")[1].split("</main>")[0]
    for chart in all_charts(load_run(folder, DIPLOMACY)):
        for trace in chart["traces"]:
            shown = [
                trace["name"],
                *(text for part in ("x", "y") for text in trace.get(part, ()) if isinstance(text, str)),
            ]
            assert not [text for text in shown if "<" in text], chart["id"]
            assert all(len(text) < 500 for text in shown)


@pytest.mark.parametrize("name", ["distributions", "groups", "rewards"])
def test_a_damaged_record_is_named(tmp_path: Path, name: str) -> None:
    from services.reports.page import ReportError

    folder = long_run(tmp_path / "run", 2)
    path = folder / "audit" / "000002.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: "many"}))
    with pytest.raises(ReportError, match=r"000002\.json is damaged"):
        load_run(folder, DIPLOMACY)


def test_a_long_run_is_put_into_buckets_and_its_page_says_so(tmp_path: Path) -> None:
    folder = long_run(tmp_path / "run", 201, episodes=7)
    page = write_report(folder, DIPLOMACY)
    text = page.read_text().split("<main>")[1].split("</main>")[0]
    assert "each column or point is the mean of 3 updates" in text
    assert "Histograms add up 3 neighbouring updates" in text
    data = json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])
    assert len(data["options"]["frame"]) == 67
    assert data["options"]["frame"][-1] == ["201", "updates 199–201"]
    assert data["chosen"] == {"role": "", "value": "mean", "frame": "201"}


def test_another_world_without_opponents_leaves_their_section_out(tmp_path: Path) -> None:
    folder = long_run(tmp_path / "run", 3)
    made = {chart["section"] for chart in all_charts(load_run(folder, TOPICS))}
    assert "opponents" not in made
    assert {"groups", "advantages"} <= made
