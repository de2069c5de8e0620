"""Runs of scenarios: paired seeds, intervals by scenario, differences to the first player."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, stdev

import pytest
from scipy.stats import t as student

from cluster.errors import RunError
from cluster.evaluation.scenario_runs import ScenarioResult, results_document, run_scenarios, score_rows
from opponents.players.chat_players import ChatPlayers
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.position import Position
from services.environments.diplomacy.scenarios.files import all_named, shipped
from services.environments.playing import Bot

CHOSEN = all_named(["italy-crisis-venice-lost", "france-opening-burgundy", "england-alliance-france"])


def run(*players: str | Bot, repeats: int = 2, seed: int = 0) -> list[ScenarioResult]:
    return run_scenarios(players, CHOSEN, repeats, seed, ChatPlayers({}))


def test_all_players_get_the_same_seeds_and_the_same_player_the_same_scores() -> None:
    results = run("random", "hold")
    assert len(results) == 2 * len(CHOSEN) * 2
    seeds = {player: [each.seed for each in results if each.player == player] for player in ("random", "hold")}
    assert seeds["random"] == seeds["hold"]
    assert len(set(seeds["hold"])) == len(CHOSEN) * 2
    assert run("random", "hold") == results
    assert [each.seed for each in run("hold", seed=1)] != seeds["hold"]


class Unnamed(Bot):
    """Plays as the random bot does."""

    def actions(self, position: Position, power: str, seed: int) -> tuple[str, ...]:
        return make_bot("random").actions(position, power, seed)


def test_an_open_player_scores_as_its_named_equal() -> None:
    results = run("random", Unnamed())
    named = [each.score for each in results if each.player == "random"]
    assert [each.score for each in results if each.player == "Unnamed"] == named
    difference = next(row for row in score_rows(results) if (row.player, row.family) == ("Unnamed", "all"))
    assert difference.difference == 0


def test_a_loyal_bot_spares_its_partner_in_alliances_and_is_the_bot_elsewhere() -> None:
    by_family = {
        (each.player, each.family, each.repeat): each.score for each in run("dumbbot", "loyal:dumbbot", repeats=4)
    }
    for family in ("crisis", "opening"):
        assert [by_family["loyal:dumbbot", family, n] for n in range(4)] == [
            by_family["dumbbot", family, n] for n in range(4)
        ]
    loyal = fmean(by_family["loyal:dumbbot", "alliance", n] for n in range(4))
    assert loyal > fmean(by_family["dumbbot", "alliance", n] for n in range(4))


def test_only_bots_can_be_loyal() -> None:
    with pytest.raises(RunError, match="loyal: goes before a bot's name"):
        run("loyal:runs/demo")


def result(player: str, scenario: str, repeat: int, score: float) -> ScenarioResult:
    given = shipped()[scenario]
    return ScenarioResult(player, scenario, given.family, given.country, repeat, repeat, score, 3)


SCORES = {
    "france-crisis-spread-thin": [0.1, 0.3],
    "germany-crisis-ring": [0.5, 0.9],
    "italy-crisis-venice-lost": [0.2, 0.2],
    "italy-opening-lepanto": [0.4, 0.0],
}


def test_intervals_take_the_repeats_of_a_scenario_as_one_cluster() -> None:
    first = [result("a", name, n, score) for name, scores in SCORES.items() for n, score in enumerate(scores)]
    second = [replace(each, player="b", score=each.score / 2) for each in first]
    rows = {(row.player, row.family, row.country): row for row in score_rows([*first, *second])}
    crises = [fmean(scores) for name, scores in SCORES.items() if "crisis" in name]
    # Clusters of one size: Student's interval of the scenarios' means.
    half = student.ppf(0.975, 2) * stdev(crises) / 3**0.5
    row = rows["a", "crisis", "all"]
    assert (row.scenarios, row.games) == (3, 6)
    assert row.score == pytest.approx(fmean(crises))
    assert row.score_ci95 == pytest.approx((max(0, fmean(crises) - half), min(1, fmean(crises) + half)))
    assert (row.difference, row.difference_ci95) == (None, None)
    paired = rows["b", "crisis", "all"]
    assert paired.difference == pytest.approx(-fmean(crises) / 2)
    assert paired.difference_ci95 == pytest.approx((-fmean(crises) / 2 - half / 2, -fmean(crises) / 2 + half / 2))
    alone = rows["a", "opening", "ITALY"]
    assert (alone.scenarios, alone.score, alone.score_ci95) == (1, 0.2, None)  # one scenario gives no interval
    assert ("a", "opening", "FRANCE") not in rows
    assert rows["a", "all", "all"].games == 8


def test_the_document_has_every_game_and_row() -> None:
    results = run("hold", repeats=1)
    document = results_document(results, 1, 0)
    assert (document["repeats"], document["seed"], len(document["games"])) == (1, 0, 3)
    assert {"id", "player"} - set(document["games"][0]) == {"id"}
    assert document["rows"][-1]["family"] == "all"
