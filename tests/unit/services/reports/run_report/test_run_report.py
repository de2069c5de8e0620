from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from services.reports.page import ReportError, embed_json
from services.reports.run_report.charts import charts, smooth, smoothing_width
from services.reports.run_report.data import checkpoint_update, interval, load_run
from services.reports.run_report.run_report import write_report

COUNTRIES = ("AUSTRIA", "FRANCE")


def evaluation(checkpoint: str, against: str, mean: float) -> dict[str, Any]:
    row = {"games": 20, "mean_centers": mean, "mean_centers_ci95": [mean - 0.5, mean + 0.5], "win_rate": 0.1}
    row |= {"top_rate": 0.5, "survival_rate": 0.9, "sum_of_squares": 0.2}
    by_country = {country: dict(row) for country in COUNTRIES}
    return {"checkpoint": checkpoint, "against": against, "until_year": 1905, **row, "by_country": by_country}


def metrics_line(update: int) -> dict[str, Any]:
    metrics: dict[str, Any] = {
        "entente_games_total": update * 50,
        "entente_run_seconds_total": update * 10.0,
        "entente_loss": 1 / update,
        "entente_weight_swap_seconds": [0.1, 0.3],
        "entente_groups{level=country+phase}": 4,
        "entente_group_size{level=country+phase}": 6.0,
    }
    for number, country in enumerate(COUNTRIES):
        metrics[f"entente_batch_centers{{country={country}}}"] = 4.0 + number
    return {"update": update, "time": 1e9 + update, "metrics": metrics}


def make_run(folder: Path, summary: dict[str, Any] | None = None, updates: int = 6) -> Path:
    usual = {
        "run": "demo",
        "commit": "abc",
        "config_digest": "def",
        "updates": updates,
        "episodes": 300,
        "games": 300,
        "wall_seconds": 75.0,
        "throughput": {"games_per_hour": 18000.0, "decisions_per_second": None},
        "evaluations": [
            evaluation("checkpoints/6", "random", 6.0),
            evaluation("checkpoints/0", "random", 4.0),
            evaluation("checkpoints/6", "dumbbot", 3.0),
        ],
    }
    (folder / "summary.json").write_text(json.dumps(usual | (summary or {})))
    lines = [json.dumps(metrics_line(update)) for update in range(1, updates + 1)]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "config.toml").write_text("[run]\nseed = 7\n[learner]\nlearning_rate = 0.001\nupdates = 6\n")
    return folder


def test_series_read_numbers_and_means_of_lists(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path))
    assert run.series("entente_loss") == ([1, 2, 3, 4, 5, 6], [1 / n for n in range(1, 7)])
    assert run.series("entente_weight_swap_seconds")[1] == pytest.approx([0.2] * 6)
    assert run.series("entente_kl") == ([], [])
    assert run.label_values("entente_groups") == ["country+phase"]


def test_rate_uses_the_runs_clock(tmp_path: Path) -> None:
    assert load_run(make_run(tmp_path)).rate("entente_games_total", 3600.0) == ([2, 3, 4, 5, 6], [18000.0] * 5)


def test_country_mean_needs_every_country(tmp_path: Path) -> None:
    make_run(tmp_path)
    lone = {"update": 7, "time": 0, "metrics": {"entente_batch_centers{country=FRANCE}": 9.0}}
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(lone) + "\n")
    assert load_run(tmp_path).country_mean("entente_batch_centers") == ([1, 2, 3, 4, 5, 6], [4.5] * 6)


def test_torn_last_line_is_skipped_and_damaged_line_raises(tmp_path: Path) -> None:
    path = make_run(tmp_path) / "metrics.jsonl"
    path.write_text(path.read_text() + '{"update": 7, "ti')
    assert len(load_run(tmp_path).lines) == 6
    path.write_text("{}\n" + path.read_text())
    with pytest.raises(ReportError, match=r"metrics\.jsonl line 1 is damaged"):
        load_run(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("summary.json", "{", r"summary\.json is damaged"),
        ("summary.json", "[]", r"summary\.json is damaged"),
        ("config.toml", "[run", r"config\.toml is damaged"),
    ],
)
def test_damaged_file_raises_one_line_with_its_name(tmp_path: Path, name: str, text: str, message: str) -> None:
    (make_run(tmp_path) / name).write_text(text)
    with pytest.raises(ReportError, match=message) as raised:
        load_run(tmp_path)
    assert "\n" not in str(raised.value)


def test_folder_without_a_run_raises(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="holds no finished run"):
        write_report(tmp_path)


def test_evaluations_are_sorted_by_checkpoint(tmp_path: Path) -> None:
    assert [checkpoint_update(row) for row in load_run(make_run(tmp_path)).evaluations] == [0, 6, 6]
    assert [checkpoint_update({"checkpoint": name}) for name in ("v20", "dumbbot", 12)] == [20, 0, 12]


def test_missing_interval_is_none() -> None:
    assert interval({"mean_centers_ci95": [1, 2]}, "mean_centers") == (1.0, 2.0)
    assert interval({"mean_centers_ci95": None}, "mean_centers") is None
    assert interval({}, "mean_centers") is None


def test_charts_without_data_are_left_out(tmp_path: Path) -> None:
    made = {chart["id"]: chart for chart in charts(load_run(make_run(tmp_path)))}
    assert {"country-all", "country-AUSTRIA", "against-random", "speed-games", "learning-loss"} <= made.keys()
    assert "learning-kl" not in made
    assert made["groups-samples"]["traces"][0]["y"] == [24.0] * 6
    before, after = made["against-random"]["traces"]
    assert (before["y"], after["y"]) == ([4.0, 4.0], [6.0, 6.0])
    assert after["error_y"]["array"] == after["error_y"]["arrayminus"] == [0.5, 0.5]
    assert len(made["against-dumbbot"]["traces"]) == 1


def test_smoothing_keeps_length_level_and_ends() -> None:
    assert smooth([3.0] * 5, 3) == [3.0] * 5
    assert smooth([0.0, 3.0, 6.0, 0.0], 3) == [1.5, 3.0, 3.0, 3.0]
    assert [smoothing_width(count) for count in (1, 30, 100)] == [3, 3, 11]


def test_page_shows_first_and_last_evaluation(tmp_path: Path) -> None:
    text = write_report(make_run(tmp_path)).read_text()
    assert "<h1>demo</h1>" in text
    assert "+2.00 ± 0.71" in text  # hypot(0.5, 0.5)
    assert "[3.50, 4.50] → [5.50, 6.50]" in text
    assert "Outcome keys were allowed" not in text


def test_page_lists_values_that_differ_from_the_defaults(tmp_path: Path) -> None:
    defaults = {"run": {"seed": 0}, "learner": {"learning_rate": 0.0003, "updates": 6}}
    text = write_report(make_run(tmp_path), defaults).read_text()
    assert "<td>learner.learning_rate</td><td>0.001</td><td>0.0003</td>" in text
    assert "<td>run.seed</td><td>7</td><td>0</td>" in text
    assert "<td>learner.updates</td>" not in text


def test_rates_have_intervals_where_the_evaluation_has_them(tmp_path: Path) -> None:
    row = evaluation("checkpoints/6", "random", 6.0)
    row |= {"win_rate_ci95": [0.028, 0.301], "top_rate_ci95": [0.299, 0.701], "survival_rate_ci95": None}
    text = write_report(make_run(tmp_path, {"evaluations": [row]})).read_text()
    assert '<td class="number">10% [3%, 30%]</td><td class="number">50% [30%, 70%]</td>' in text
    assert '<td class="number">90%</td>' in text
    assert "20 games, 10% [3%, 30%] solos" in text
    assert "ties count as leads" in text


def test_page_warns_of_outcome_keys(tmp_path: Path) -> None:
    make_run(tmp_path)
    (tmp_path / "config.toml").write_text("[grouping]\nallow_outcome_keys = true\n")
    assert "Outcome keys were allowed" in write_report(tmp_path).read_text()


def test_numbers_that_are_not_finite_count_as_missing(tmp_path: Path) -> None:
    rows = [evaluation("checkpoints/0", "random", 4.0), evaluation("checkpoints/6", "random", 5.0)]
    rows[0]["mean_centers_ci95"] = [math.nan, 4.5]
    rows[1]["win_rate"] = math.inf
    rows[1]["by_country"]["FRANCE"]["mean_centers"] = math.nan
    make_run(tmp_path, {"evaluations": rows, "wall_seconds": math.nan, "throughput": {"games_per_hour": math.inf}})
    lines = [metrics_line(update) for update in range(1, 7)]
    lines[2]["metrics"] |= {"entente_loss": math.nan, "entente_games_total": math.inf}
    lines[3]["metrics"] |= {"entente_batch_centers{country=FRANCE}": math.nan}
    lines[4]["metrics"] |= {"entente_weight_swap_seconds": [math.nan, 0.3]}
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = load_run(tmp_path)
    assert run.series("entente_loss")[0] == [1, 2, 4, 5, 6]
    assert run.rate("entente_games_total") == ([2, 4, 5, 6], [5.0] * 4)
    assert run.country_mean("entente_batch_centers")[0] == [1, 2, 3, 5, 6]
    assert run.series("entente_weight_swap_seconds")[1][4] == 0.3
    assert "NaN" not in write_report(tmp_path).read_text().split('id="data">')[1].split("</script>")[0]


def test_names_from_files_are_no_markup_for_plotly(tmp_path: Path) -> None:
    rows = [evaluation("checkpoints/0", '<a href="https://elsewhere">x</a>', 4.0)]
    rows[0]["by_country"] = {"<b>FRANCE": rows[0]["by_country"]["FRANCE"]}
    make_run(tmp_path, {"evaluations": rows})
    line = metrics_line(7)
    line["metrics"] = {
        "entente_groups{level=%7Ba%2C<b>}": 1, "entente_group_size{level=%7Ba%2C<b>}": 2,
        "entente_reward_part{part=<i>}": 1.0,
    }  # fmt: skip
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    traces = [trace for chart in charts(load_run(tmp_path)) for trace in chart["traces"]]
    texts = [trace["name"] for trace in traces] + [x for trace in traces for x in trace["x"] if isinstance(x, str)]
    assert {"{a,&lt;b&gt;", "&lt;i&gt;", "&lt;b&gt;france"} <= set(texts)
    assert not [text for text in texts if "<" in text]


def test_texts_from_files_are_escaped(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    rows = [evaluation(f"{evil}0", evil, 4.0), evaluation(f"{evil}6", evil, 5.0)]
    text = write_report(make_run(tmp_path, {"run": evil, "commit": evil, "evaluations": rows})).read_text()
    assert "alert(1)" in text
    assert "<script>alert(1)" not in text


def test_empty_run_has_a_page(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("{}")
    assert "Provenance" in write_report(tmp_path).read_text()


def test_embedded_json_reads_back_and_refuses_nan() -> None:
    data = {"text": "</script>\u2028<!--", "number": 1.5}
    assert json.loads(embed_json(data)) == data
    assert "<" not in embed_json(data)
    with pytest.raises(ValueError, match="not JSON compliant"):
        embed_json(math.nan)
