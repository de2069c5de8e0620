"""``entente evaluate`` and ``entente compare-players``: their tables, files and rules."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cluster.cli.app import app
from cluster.errors import RunError
from services.environments.diplomacy.measures.definitions import EVALUATED
from services.environments.diplomacy.position import POWERS

SHORT = ("--until", 1902, "--processes", 1)


def entente(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any], list[dict[str, str]]]:
    folder = tmp_path_factory.mktemp("evaluated")
    rows, table = folder / "rows.json", folder / "rows.csv"
    words = ("evaluate", "dumbbot", "hold", "--against", "random,greedy", "--games-per-country", 2, *SHORT)
    said = entente(*words, "--json", rows, "--csv", table)
    with table.open() as lines:
        return said, json.loads(rows.read_text()), list(csv.DictReader(lines))


def test_rows_have_every_measure_with_its_interval_and_definition(evaluated: Any) -> None:
    _, document, _ = evaluated
    assert [(row["checkpoint"], row["against"]) for row in document["evaluations"]] == [
        ("dumbbot", "random"),
        ("hold", "random"),
        ("dumbbot", "greedy"),
        ("hold", "greedy"),
    ]
    for row in document["evaluations"]:
        assert row["games"] == 14
        assert row["until_year"] == 1902
        assert set(row["by_country"]) == set(POWERS)
        for measure in EVALUATED:
            low, high = row[f"{measure.row_name}_ci95"]
            assert low <= row[measure.row_name] <= high
            assert row["definitions"][measure.row_name]
    holds = document["evaluations"][1]
    assert holds["hold_share"] == holds["survival_rate"] == 1.0
    assert holds["solo_rate"] == holds["defeat_rate"] == holds["draw_rate"] == 0.0


def test_further_players_are_compared_with_the_first_in_the_same_games(evaluated: Any) -> None:
    said, document, _ = evaluated
    first, second = document["evaluations"][:2]
    difference = document["differences"][0]
    assert (difference["checkpoint"], difference["compared_with"]) == ("hold", "dumbbot")
    assert difference["pairs"] == 14
    for measure in EVALUATED:
        apart = second[measure.row_name] - first[measure.row_name]
        assert difference[measure.row_name] == pytest.approx(apart)
    assert "hold compared with dumbbot, in the same 14 games against six random" in said


def test_the_table_has_80_columns(evaluated: Any) -> None:
    said, document, _ = evaluated
    table = [line for line in said.splitlines() if not line.startswith("written to")]
    assert max(map(len, table)) <= 80
    low, high = document["evaluations"][0]["lead_rate_ci95"]
    leads = f"{document['evaluations'][0]['lead_rate']:.0%} [{100 * low:.0f},{100 * high:.0f}]"
    assert leads in said
    assert "ties count" in said


def test_the_csv_has_a_line_for_each_row_and_country(evaluated: Any) -> None:
    _, document, lines = evaluated
    rows = document["evaluations"]
    assert len(lines) == len(rows) * (1 + len(POWERS))
    for row, line in zip(rows, itertools.islice(lines, 0, None, 1 + len(POWERS)), strict=True):
        assert (line["player"], line["against"], line["country"]) == (row["checkpoint"], row["against"], "all")
        assert float(line["mean_centers"]) == row["mean_centers"]
        assert [float(line["mean_centers_low"]), float(line["mean_centers_high"])] == row["mean_centers_ci95"]


def test_a_sequential_evaluation_stops_once_enough_is_known(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    words = ("evaluate", "dumbbot", "hold", "--games-per-country", 10, *SHORT, "--json", out)
    entente(*words, "--stop-within", "mean_centers=30")
    (first, _) = json.loads(out.read_text())["evaluations"]
    assert (first["games"], first["look"], first["looks"]) == (14, 1, 5)
    assert first["level_of_each_interval"] > 0.9999
    entente(*words, "--stop-when-clear", "mean_centers")
    early = json.loads(out.read_text())
    assert early["evaluations"][0]["look"] < 5
    assert early["differences"][0]["mean_centers_ci95"][1] < 0
    entente(*words, "--stop-when-clear", "solo_rate")  # neither has any
    late = json.loads(out.read_text())["evaluations"][0]
    assert (late["games"], late["look"]) == (70, 5)
    assert 0.95 < late["level_of_each_interval"] < 0.97


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--stop-within", "mean_centers"), "is not MEASURE=WIDTH"),
        (("--stop-within", "mean_centers=-1"), "is not MEASURE=WIDTH"),
        (("--stop-within", "mean_centers=inf"), "is not MEASURE=WIDTH"),
        (("--stop-within", "centres=1"), "no measure is called 'centres'; there are mean_centers, "),
        (("--stop-when-clear", "mean_centers"), "needs at least two players"),
        (("--stop-when-clear", "x", "--stop-within", "x=1"), "not both"),
        (("--against", ","), "--against names no player"),
    ],
)
def test_rules_that_cannot_be_used_are_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(RunError, match=said):
        entente("evaluate", "hold", *SHORT, *words)


def test_players_are_compared_pair_by_pair(tmp_path: Path) -> None:
    out, table = tmp_path / "compared.json", tmp_path / "compared.csv"
    words = ("compare-players", "dumbbot", "hold", "random", "--against", "greedy", "--games-per-country", 3, *SHORT)
    said = entente(*words, "--json", out, "--csv", table)
    document = json.loads(out.read_text())
    oppositions = {row["against"] for row in document["evaluations"]}
    assert oppositions == {"greedy", "mixed tables"}
    assert len(document["evaluations"]) == 6
    for row in document["evaluations"]:
        assert row["sum_of_squares_ci95"][0] <= row["sum_of_squares"] <= row["sum_of_squares_ci95"][1]
    assert len(document["differences"]) == 2 * 3 * 5
    for row in document["differences"]:
        assert row["p_value"] <= row["p_value_corrected"] <= 1
        assert row["significant"] == (row["p_value_corrected"] <= 0.05)
        if row["significant"]:
            assert not row["difference_ci95"][0] <= 0 <= row["difference_ci95"][1]
    by_measure = [row for row in document["differences"] if row["measure"] == "mean_centers"]
    clear = [row for row in by_measure if row["player"] == "hold" and row["significant"]]
    assert "mixed tables" in {row["against"] for row in clear}  # DumbBot has more centres than one that holds
    assert "n.s." in said
    assert len(table.read_text().splitlines()) == 1 + 6 * 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("hold",), "compare two to seven different players, not 1"),
        (("hold", "hold"), "compare two to seven different players, not 1"),
        (("hold", "random", "--against", "", "--no-mixed"), "there is nothing to play"),
        (("hold", "nobody"), "'nobody' is neither a bot"),
    ],
)
def test_comparisons_that_cannot_be_made_are_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(RunError, match=said):
        entente("compare-players", *words)
