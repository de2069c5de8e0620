from __future__ import annotations

import html
import json
import math
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from grpo_core.types import RoleMeasures
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.game_origin import GameOrigin
from services.environments.diplomacy.position import POWERS
from services.environments.seat_player import SeatPlayer
from services.reports.colors import SERIES
from services.reports.game_viewer import game_viewer
from services.reports.page import ReportError, embed_json
from services.reports.run_report import data, run_report
from services.reports.run_report.all_charts import all_charts as charts
from services.reports.run_report.all_charts import share_scale
from services.reports.run_report.charts.chart import smooth, smoothing_width
from services.reports.run_report.configuration import configuration
from services.reports.run_report.data import RunData, checkpoint_update, interval
from services.reports.run_report.games import pages
from services.reports.run_report.text import parameters_text
from tests.measured import CHAIRS, DIPLOMACY, TOPICS

COUNTRIES = ("AUSTRIA", "FRANCE")
CENTERS = DIPLOMACY.main


def load_run(folder: Path) -> RunData:
    return data.load_run(folder, DIPLOMACY)


def write_report(folder: Path, defaults: dict[str, Any] | None = None) -> Path:
    return run_report.write_report(folder, DIPLOMACY, defaults)


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


def test_role_mean_needs_every_country(tmp_path: Path) -> None:
    make_run(tmp_path)
    lone = {"update": 7, "time": 0, "metrics": {"entente_batch_centers{country=FRANCE}": 9.0}}
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(lone) + "\n")
    assert load_run(tmp_path).role_mean("entente_batch_centers") == ([1, 2, 3, 4, 5, 6], [4.5] * 6)


def test_role_mean_by_weight_is_a_mean_of_all_that_was_counted(tmp_path: Path) -> None:
    make_run(tmp_path)
    promised = {"FRANCE": (0.25, 8.0), "ITALY": (1.0, 2.0), "TURKEY": (None, 0.0)}
    with (tmp_path / "metrics.jsonl").open("a") as file:
        for update in (7, 8, 9):
            metrics = {}
            for role, (share, count) in promised.items():
                metrics[f"entente_batch_centers{{country={role}}}"] = 4.0
                metrics[f"entente_country_promises{{country={role}}}"] = 0.0 if update == 9 else count
                if share is not None and update != 9:
                    metrics[f"entente_country_honesty{{country={role}}}"] = share
            if update == 8:
                del metrics["entente_country_promises{country=TURKEY}"]
            file.write(json.dumps({"update": update, "time": 0, "metrics": metrics}) + "\n")
    run = load_run(tmp_path)
    assert run.role_mean("entente_country_honesty", "entente_country_promises") == ([7], [pytest.approx(0.4)])
    assert run.role_mean("entente_country_honesty", "entente_country_unknown") == ([], [])


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
    assert interval({"mean_centers_ci95": [1, 2]}, CENTERS) == (1.0, 2.0)
    assert interval({"mean_centers_ci95": None}, CENTERS) is None
    assert interval({}, CENTERS) is None


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
    assert "+2.00 [+1.29, +2.71]" in text  # 2 -+ hypot(0.5, 0.5)
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
    assert run.role_mean("entente_batch_centers")[0] == [1, 2, 3, 5, 6]
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
    assert {"{a,&lt;b&gt;", "&lt;i&gt;", "&lt;b&gt;FRANCE"} <= set(texts)
    assert not [text for text in texts if "<" in text]


def test_texts_from_files_are_escaped(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    rows = [evaluation(f"{evil}0", evil, 4.0), evaluation(f"{evil}6", evil, 5.0)]
    text = write_report(make_run(tmp_path, {"run": evil, "commit": evil, "evaluations": rows})).read_text()
    assert "alert(1)" in text
    assert "<script>alert(1)" not in text


def test_the_top_names_the_policys_size_and_its_opponents(tmp_path: Path) -> None:
    make_run(tmp_path, {"policy": {"parameters": 1_236_000, "trained_parameters": 1_236_000}})
    (tmp_path / "config.toml").write_text(
        '[policy]\narchitecture = "qwen3"\nlayers = 4\nhidden_size = 128\n'
        "[opponents]\nsnapshot_every = 5\n[opponents.members]\nrandom = 2.0\ndumbbot = 1.0\nhold = 0.0\n"
    )
    top = write_report(tmp_path).read_text().split("Learning curves")[0]
    assert "1.24 million parameters, qwen3, 4 layers of width 128, started from random weights" in top
    assert "random (weight 2.0), dumbbot (weight 1.0), frozen snapshots of itself, one every 5 updates" in top
    assert "six random, six dumbbot" in top
    assert "hold" not in top


def test_the_top_says_what_is_trained_of_a_model_from_elsewhere(tmp_path: Path) -> None:
    make_run(tmp_path, {"policy": {"parameters": 7.6e9, "trained_parameters": 4.04e7}})
    (tmp_path / "config.toml").write_text(
        '[policy]\npath = "/home/someone/models/Seven-B/"\nuse_peft = true\nlora_r = 16\n'
    )
    top = write_report(tmp_path).read_text().split("Learning curves")[0]
    assert "7.60 billion parameters, 40.4 million of them trained, from Seven-B, LoRA adapters of rank 16" in top


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (999, "999"),
        (121024, "121,024"),
        (1_240_000, "1.24 million"),
        (999_900_000, "1,000 million"),
        (1.5e13, "15,000 billion"),
    ],
)
def test_numbers_of_parameters_are_short(count: float, text: str) -> None:
    assert parameters_text(count) == text


def test_an_even_share_is_in_charts_of_centres_and_in_the_table(tmp_path: Path) -> None:
    made = {chart["id"]: chart for chart in charts(load_run(make_run(tmp_path)))}
    for name in ("country-all", "country-FRANCE", "against-random"):
        assert made[name]["even"] == pytest.approx(34 / 7)
    assert "even" not in made["learning-loss"]
    text = write_report(tmp_path).read_text()
    row = text.split("<td>an even share</td>")[1].split("</tr>")[0]
    assert re.findall(r">([0-9.]+)<", row) == ["4.86", "0.143"]


def test_markers_of_one_checkpoint_stand_beside_one_another(tmp_path: Path) -> None:
    rows = [evaluation(f"checkpoints/{n}", name, 5.0) for n in (0, 3, 6) for name in ("random", "greedy", "dumbbot")]
    [chart] = [c for c in charts(load_run(make_run(tmp_path, {"evaluations": rows}))) if c["id"] == "country-all"]
    markers = [trace for trace in chart["traces"] if "evaluation" in trace["name"]]
    assert len({trace["marker"]["symbol"] for trace in markers}) == len(markers) == 3
    places = sorted(x for trace in markers for x in trace["x"])
    assert min(later - earlier for earlier, later in pairwise(places)) > 0.07 * 6
    for trace in markers:
        assert trace["customdata"] == [0, 3, 6], "the hover text has the true updates"
        assert all(abs(x - true) < 1.5 for x, true in zip(trace["x"], trace["customdata"], strict=True))


def test_an_impossible_checkpoint_is_shown_all_the_same(tmp_path: Path) -> None:
    rows = [evaluation("checkpoints/" + "9" * 900, "random", 4.0), evaluation("checkpoints/1", "greedy", 4.0)]
    assert "demo" in write_report(make_run(tmp_path, {"evaluations": rows})).read_text()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(metrics_line(7) | {"update": 10**400}) + "\n" + json.dumps(metrics_line(8)) + "\n")
    with pytest.raises(ReportError, match=r"metrics\.jsonl line 7 is damaged"):
        write_report(tmp_path)


def test_a_marker_that_is_alone_stands_at_its_update(tmp_path: Path) -> None:
    rows = [evaluation("checkpoints/0", "random", 4.0)]
    rows += [evaluation("checkpoints/6", name, 5.0) for name in ("random", "greedy")]
    [chart] = [c for c in charts(load_run(make_run(tmp_path, {"evaluations": rows}))) if c["id"] == "country-all"]
    random, greedy = (trace["x"] for trace in chart["traces"] if "evaluation" in trace["name"])
    assert random[0] == 0
    assert (random[1] + greedy[0]) / 2 == pytest.approx(6)
    assert random[1] < greedy[0]


def test_charts_use_no_more_than_the_eight_colours(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path))
    colors = {
        trace[part]["color"]
        for chart in charts(run)
        for trace in chart["traces"]
        for part in ("line", "marker")
        if part in trace
    }
    assert colors <= {*SERIES, "@ink", "@card", "@muted", "@accent"}
    assert {"@AUSTRIA", "@FRANCE", "@ALL"} <= colors


def saved_game(path: Path, origin: GameOrigin | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    game = DiplomacyGame(1901)
    game.process()
    game.origin = origin
    game.save(path)


def test_the_report_links_to_the_games_of_the_last_evaluations(tmp_path: Path) -> None:
    rows = [evaluation("checkpoints/0", "random", 4.0) | {"label": "untrained"}]
    rows += [evaluation("checkpoints/6", "random", 5.0) | {"label": "trained"}]
    make_run(tmp_path, {"evaluations": rows})
    learner = SeatPlayer("demo/checkpoints/6", "learner", 6, "0f" * 32, "constrained", 1.0)
    bot = SeatPlayer("random", "bot", checksum="e7" * 32)
    origin = GameOrigin({**dict.fromkeys(POWERS, bot), "FRANCE": learner}, 2**63 - 1, 1901, "af03", "0.1.0")
    saved_game(tmp_path / "games" / "trained-random" / "FRANCE.json", origin)
    saved_game(tmp_path / "games" / "trained-random" / "ITALY.json")
    saved_game(tmp_path / "games" / "untrained-random" / "FRANCE.json", origin)
    (tmp_path / "games" / "trained-random" / "RUSSIA.json").write_text("{}")
    section = write_report(tmp_path).read_text().split('<section id="games">')[1].split("</section>")[0]
    assert re.findall('href="([^"]+)"', section) == [
        f"games/trained-random/{name}.html" for name in ("FRANCE", "ITALY")
    ]
    assert "demo/checkpoints/6" in (tmp_path / "games" / "trained-random" / "FRANCE.html").read_text()
    cells = ("3", "demo/checkpoints/6", "6 updates", "0f0f0f0f0f0f", "random", "9223372036854775807", "af03")
    assert "".join(f"<td>{cell}</td>" for cell in cells) in section
    assert "does not say who played" in section
    assert "RUSSIA.json is not a saved game" in section
    assert not (tmp_path / "games" / "untrained-random" / "FRANCE.html").exists()


def test_games_outside_the_run_are_not_opened(tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    run.mkdir()
    saved_game(outside / "FRANCE.json")
    (run / "games").mkdir()
    (run / "games" / "trained-random").symlink_to(outside)
    labels = ("trained", "../../outside", "..", "", "x" * 500)
    rows = [
        evaluation("checkpoints/6", against, 4.0) | {"label": label}
        for label in labels
        for against in ("random", "/..")
    ]
    for row, number in zip(rows, range(len(rows)), strict=True):
        row["against"] = f"{row['against']}" if number < 2 else f"{row['against']}{number}"
    text = write_report(make_run(run, {"evaluations": rows})).read_text()
    assert '<section id="games">' not in text
    assert [path.name for path in outside.iterdir()] == ["FRANCE.json"]


def test_a_report_shows_at_most_so_many_games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_GAMES", 2)
    make_run(tmp_path, {"evaluations": [evaluation("checkpoints/6", "random", 5.0) | {"label": "trained"}]})
    for power in ("FRANCE", "ITALY", "TURKEY"):
        saved_game(tmp_path / "games" / "trained-random" / f"{power}.json")
    text = write_report(tmp_path).read_text()
    assert text.count('<a href="games/') == 2
    assert len(list(tmp_path.rglob("games/*/*.html"))) == 2


def test_a_page_is_drawn_again_only_after_its_game_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path, {"evaluations": [evaluation("checkpoints/6", "random", 5.0) | {"label": "trained"}]})
    path = tmp_path / "games" / "trained-random" / "FRANCE.json"
    saved_game(path)
    drawn: list[Path] = []
    draw = game_viewer.write_viewer
    monkeypatch.setattr(game_viewer, "write_viewer", lambda game, *more: drawn.append(game) or draw(game, *more))
    section = [write_report(tmp_path).read_text().split('<section id="games">')[1] for _ in range(2)]
    assert drawn == [path]
    assert section[0] == section[1]
    later = path.with_suffix(".html").stat().st_mtime_ns + 10**9
    os.utime(path, ns=(later, later))
    write_report(tmp_path)
    assert drawn == [path, path]
    path.write_text("{}")
    assert "FRANCE.json is not a saved game" in write_report(tmp_path).read_text()


def test_empty_run_has_a_page(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("{}")
    assert "Provenance" in write_report(tmp_path).read_text()


def test_embedded_json_reads_back_and_refuses_nan() -> None:
    data = {"text": "</script>\u2028<!--", "number": 1.5}
    assert json.loads(embed_json(data)) == data
    assert "<" not in embed_json(data)
    with pytest.raises(ValueError, match="not JSON compliant"):
        embed_json(math.nan)


def test_the_configuration_names_no_folder_account_or_password(tmp_path: Path) -> None:
    url = "rediss://u:p@ss/w0rd@10.0.0.5:6379/0?ssl_ca_certs=/home/alice/ca.pem&ssl_keyfile=%2Fhome%2Falice%2Fkey.pem"
    (make_run(tmp_path) / "config.toml").write_text(
        '[policy]\npath = "/home/alice/models/base"\n[imitation]\nsaved_games = "alice/games"\n'
        f'[redis]\nurl = "{url}"\n'
    )
    run = load_run(tmp_path)
    for defaults in (None, {"policy": {"path": None}}):
        text = html.unescape(configuration(run, defaults))
        assert "policy.path = base\nimitation.saved_games = games\n" in text
        assert "redis.url = rediss://***@10.0.0.5:6379/0?ssl_ca_certs=ca.pem&ssl_keyfile=key.pem" in text
        assert not [private for private in ("alice", "ss/w0rd", "w0rd", "u:p") if private in text]


def test_the_configuration_keeps_a_models_name_on_the_hub(tmp_path: Path) -> None:
    (make_run(tmp_path) / "config.toml").write_text('[policy]\npath = "Qwen/Qwen3-0.6B@main"\n')
    assert "policy.path = Qwen/Qwen3-0.6B@main" in configuration(load_run(tmp_path), None)


def other_world(folder: Path, measured: RoleMeasures, cell: dict[str, Any], against: str) -> str:
    """The text of a page of another world's run, without its scripts."""
    rows = [
        {"checkpoint": f"checkpoints/{update}", "label": label, "against": against, **cell}
        | {measured.by_role: dict.fromkeys(measured.roles, cell)}
        for update, label in ((0, "untrained"), (6, "trained"))
    ]
    make_run(folder, {"evaluations": rows})
    (folder / "config.toml").write_text("[opponents.members]\nrandom = 1.0\n")
    names = [f"entente_batch_{measured.main.name}{{{measured.role_name}={role}}}" for role in measured.roles]
    lines = [{"update": update, "time": 0, "metrics": dict.fromkeys(names, 0.5)} for update in range(1, 7)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    saved = folder / "games" / f"trained-{against}" / f"{measured.roles[0]}.json"
    saved.parent.mkdir(parents=True)
    saved.write_text("{}")
    text = run_report.write_report(folder, measured).read_text()
    return html.unescape(text.split("<main>")[1].split("</main>")[0])


DIPLOMACYS_WORDS = re.compile(r"centre|countr|solo|surviv|dumbbot|\bsix\b|seven|Austria|power|Squares|Leads|the end of")


def test_the_page_of_another_game_shows_its_measures_by_its_seats(tmp_path: Path) -> None:
    cell = {"games": 30, "mean_chips": -0.5, "mean_chips_ci95": [-1.0, 0.25], "showdown_rate": 0.5}
    cell |= {"showdown_rate_ci95": [0.4, 0.6], "bet_rate": 0.25, "bet_rate_ci95": None, "regret": 0.125}
    text = other_world(tmp_path, CHAIRS, cell, "random")
    assert not DIPLOMACYS_WORDS.search(text)
    assert "<dt>Evaluated against</dt><dd>two random</dd>" in text
    assert "<h2>Mean chips against random</h2>" in text
    assert "30 games, 50% [40%, 60%] showdowns<br>an even share is 0.00" in text
    assert "Before and after, by chair" in text
    assert "All chairs" in text
    assert "an even share, the 0.00 that each of three equal players gets" in text
    head = text.split('aria-label="Evaluations"')[1].split("</thead>")[0]
    columns = ["checkpoint", "against", "games", "chips", "95% interval", "showdowns", "bets", "regret"]
    assert re.findall(r"<th[^>]*>([^<]+)<", head) == columns
    assert "The last row is what each of three equals has." in text
    assert '<section id="games">' not in text
    made = {chart["id"]: chart for chart in charts(data.load_run(tmp_path, CHAIRS))}
    assert {"chair-all", "chair-A", "chair-C", "against-random"} <= made.keys()
    assert made["chair-B"]["traces"][1]["line"]["color"] == SERIES[1]
    share_scale([made["chair-A"]], CHAIRS)
    assert made["chair-A"]["range"] == pytest.approx([-1.05, 0.525])


def test_the_page_of_tasks_for_one_player_names_no_opponents(tmp_path: Path) -> None:
    text = other_world(tmp_path, TOPICS, {"games": 30, "solved": 0.5, "solved_ci95": [0.4, 0.6]}, "test")
    assert not DIPLOMACYS_WORDS.search(text)
    assert not re.search(r"\bagainst\b(?!-test\")", text)  # but for a chart's id
    assert "Trained" not in text
    assert "<dt>Evaluated on</dt><dd>test</dd>" in text
    assert "<h2>Share of problems solved on test</h2>" in text
    assert "[40%, 60%] → [40%, 60%]" in text
    assert "an even share" not in text
    assert "Share of problems solved for each topic" in text


def test_evaluations_of_other_measures_are_damaged(tmp_path: Path) -> None:
    rows = [{"against": "random", "mean_chips": "many"}]
    with pytest.raises(ReportError, match=r"summary\.json is damaged"):
        data.load_run(make_run(tmp_path, {"evaluations": rows}), CHAIRS)
