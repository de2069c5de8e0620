"""A small ladder of bots, from real games to 1902: rows, order, and what is at the tables."""

from __future__ import annotations

import csv
import io
from itertools import pairwise

import pytest

from cluster.errors import RunError
from cluster.evaluation.evaluate import diplomacy_request, evaluate, evaluation_rows
from cluster.evaluation.ladder.columns import NAMES, columns
from cluster.evaluation.ladder.document import ladder_csv, ladder_document, scale_text
from cluster.evaluation.ladder.ladder import Ladder, check_players, measure_ladder
from cluster.evaluation.tables.places import this_process
from services.environments.diplomacy.ending import Ending
from services.environments.diplomacy.settings import GameSettings

SHORT = Ending(1902)
BOTS = ("hold", "random", "greedy")


def ladder(names: tuple[str, ...] = BOTS, mixed_games: int = 2, against: str = "dumbbot") -> Ladder:
    request = diplomacy_request(2, SHORT, seed=3)
    return measure_ladder(request, SHORT, names, against, mixed_games, this_process)


@pytest.fixture(scope="module")
def found() -> Ladder:
    return ladder()


def test_rows_are_those_of_an_evaluation_with_a_rating(found: Ladder) -> None:
    request = diplomacy_request(2, SHORT, seed=3)
    evaluated = {row["checkpoint"]: row for row in evaluation_rows(request, BOTS, evaluate(request, BOTS, ["dumbbot"]))}
    for row in found.rows:
        own = evaluated[row["checkpoint"]]
        assert {name: row[name] for name in own} == own
        assert set(row) - set(own) == {"place", "rating", "rating_ci95", "rating_fixed", "mixed_games"}
        for name in NAMES:
            low, high = row[f"{name}_ci95"]
            assert low <= row[name] <= high


def test_solos_and_most_sc_together_are_the_leads(found: Ladder) -> None:
    for row in found.rows:
        assert row["solo_rate"] + row["lead_without_solo_rate"] == pytest.approx(row["lead_rate"])


def test_players_come_by_rating_and_random_fixes_the_scale(found: Ladder) -> None:
    ratings = [row["rating"] for row in found.rows]
    assert ratings == sorted(ratings, reverse=True)
    assert [row["place"] for row in found.rows] == [1, 2, 3]
    assert found.rows[0]["checkpoint"] == "greedy"
    random = next(row for row in found.rows if row["checkpoint"] == "random")
    assert (round(random["rating"], 6), random["rating_ci95"], random["rating_fixed"]) == (1000.0, None, True)
    assert found.fixed == "random"
    low, high = found.rows[0]["rating_ci95"]
    assert low < found.rows[0]["rating"] < high
    assert "random is fixed at 1000" in scale_text(found)


def test_neighbours_are_tested_by_places_over_all_pairs(found: Ladder) -> None:
    assert [row["measure"] for row in found.differences] == ["mean_rank"] * 3
    order = [row["checkpoint"] for row in found.rows]
    assert [(row["higher"], row["lower"]) for row in found.neighbours] == list(pairwise(order))
    assert all(row["against"] == "mixed tables" for row in found.neighbours)


def test_without_mixed_tables_the_squares_rank_the_players() -> None:
    found = ladder(mixed_games=0)
    assert found.mixed_games == 0
    assert all(row["rating"] is None and row["rating_ci95"] is None for row in found.rows)
    squares = [row["sum_of_squares"] for row in found.rows]
    assert squares == sorted(squares, reverse=True)
    assert {row["measure"] for row in found.differences} == {"sum_of_squares"}
    assert {row["against"] for row in found.neighbours} == {"dumbbot"}
    assert scale_text(found) == ""


def test_one_player_has_no_rating() -> None:
    found = ladder(("random",))
    assert (found.mixed_games, found.neighbours, found.differences) == (0, [], [])
    assert found.rows[0]["rating"] is None


def test_published_figures_are_those_against_the_anchor(found: Ladder) -> None:
    assert [row["checkpoint"] for row in found.published] == ["DipNet SL", "Glick"]
    assert not any(row["comparable"] for row in found.published)  # the games end in 1902
    assert ladder(("hold",), against="random").published == []


def test_nothing_published_stands_beside_games_with_press() -> None:
    request = diplomacy_request(1, SHORT, press=GameSettings(press_rounds=2))
    found = measure_ladder(request, SHORT, ("honest", "breaker"), "dumbbot", 1, this_process)
    assert found.published == []
    assert {row["press_rounds"] for row in found.rows} == {2}
    assert all(row["rating"] is not None for row in found.rows)


def test_the_csv_has_a_line_for_each_player_and_published_figure(found: Ladder) -> None:
    request = diplomacy_request(2, SHORT, seed=3)
    shown = columns(request.played.measures)
    lines = list(csv.DictReader(io.StringIO(ladder_csv(found, shown, ["until_year"]))))
    assert [line["player"] for line in lines] == [
        *(row["checkpoint"] for row in found.rows),
        *(row["checkpoint"] for row in found.published),
    ]
    first, dipnet = lines[0], lines[3]
    assert float(first["rating"]) == found.rows[0]["rating"]
    assert [float(first["solo_rate_low"]), float(first["solo_rate_high"])] == found.rows[0]["solo_rate_ci95"]
    assert (dipnet["solo_rate"], dipnet["solo_rate_low"], dipnet["survival_rate"]) == ("0.748", "", "")
    assert dipnet["source"].startswith("DipNet (diplomacy/research)")
    assert dipnet["comparable"] == "False"


def test_the_document_has_definitions_once(found: Ladder) -> None:
    request = diplomacy_request(2, SHORT, seed=3)
    shown = columns(request.played.measures)
    made = ladder_document(found, shown, request.facts, seed=3, command="entente ladder", commit="unknown")
    assert [each["name"] for each in made["columns"]] == list(NAMES)
    assert "definitions" not in made["ladder"][0]
    assert made["definitions"]["solo_rate"] == "share of games won with 18 centres (compare DipNet's win)"
    assert (made["until_year"], made["seed"]) == (1902, 3)


def test_players_that_cannot_be_ranked_are_refused() -> None:
    eight = [f"p{number}" for number in range(8)]
    with pytest.raises(RunError, match="8 players do not fit at a table of 7"):
        check_players(eight, 1)
    check_players(eight, 0)
    with pytest.raises(RunError, match="needs a player"):
        check_players([], 1)
