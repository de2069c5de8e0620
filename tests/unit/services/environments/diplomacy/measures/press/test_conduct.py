"""Conduct in saved games: the same promises as in the games themselves, and counts that agree with other measures."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from opponents.play import play_game
from services.environments.diplomacy.alliances import acts
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.measures.press.conduct import (
    Conduct,
    conduct,
    conduct_by_year,
    conduct_rates,
    honesty_by_year,
    saved_conduct,
    saved_years,
)
from services.environments.diplomacy.measures.press.history import negotiated_phases
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.saved_game import SavedGameError, read_saved_game
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.world import Diplomacy, MeasuredDiplomacy
from tests.paths import RECORDED_GAMES

TALKERS = ("honest", "keeper", "breaker", "stabber", "chatter", "dumbbot", "greedy")


def played(seed: int) -> tuple[DiplomacyGame, dict[str, dict[str, float]], Diplomacy]:
    world = MeasuredDiplomacy(GameSettings(until_year=1906, press_rounds=2))
    game = world.new_game("", "FRANCE", seed)
    seats = {power: world.make_bot(name) for power, name in zip(POWERS, TALKERS, strict=True)}
    record = asyncio.run(play_game(game, seats, seed))
    return game, {power: dict(parts) for power, parts in record.result.outcomes.items()}, world


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[DiplomacyGame, dict[str, Any], Any]]:
    folder = tmp_path_factory.mktemp("games")
    found = []
    for seed in range(3):
        game, outcomes, _ = played(seed)
        game.save(folder / f"{seed}.json")
        found.append((game, outcomes, read_saved_game(folder / f"{seed}.json")))
    return found


def test_a_saved_game_has_the_promises_and_verdicts_of_the_game_itself(games: Any) -> None:
    for game, _, document in games:
        phases = list(negotiated_phases(document, "game"))
        assert [verdict for phase in phases for verdict in phase.verdicts] == game.press.ledger.verdicts
        assert sum(len(phase.letters) for phase in phases) > 100


def test_promises_are_counted_as_in_the_game_itself(games: Any) -> None:
    for game, _, document in games:
        counted = {
            pair: (each.promises_kept, each.promises_broken)
            for pair, each in conduct(document, "game").items()
            if each.promises_kept + each.promises_broken
        }
        accounts = game.press.ledger.accounts
        assert counted == {pair: (own.kept, own.broken) for pair, own in accounts.items()}


def test_counts_agree_with_those_of_evaluations_and_of_alliances(games: Any) -> None:
    for _, outcomes, document in games:
        found = conduct(document, "game")
        for power in POWERS:
            own = [each for (acting, _), each in found.items() if acting == power]
            effective = sum(each.effective_supports for each in own)
            share = outcomes[power]["effective_foreign_support_share"]
            assert (effective > 0) == (share > 0)
        totals = dict.fromkeys(found, 0)
        for phase in negotiated_phases(document, "game"):
            for (power, other), net in acts(phase.position, phase.orders).items():
                if phase.position.units[other]:
                    totals[power, other] += net
        assert totals == {pair: each.supports - each.attacks for pair, each in found.items()}


def test_rates_tell_honest_players_from_others(games: Any) -> None:
    seats = dict(zip(POWERS, TALKERS, strict=True))
    rates = conduct_rates((seats, conduct(document, "game")) for _, _, document in games)
    honest = [rate.honesty for (player, _), rate in rates.items() if player == "honest" and rate.honesty is not None]
    breaker = [rate.honesty for (player, _), rate in rates.items() if player == "breaker" and rate.honesty is not None]
    assert min(each.mean for each in honest) == 1.0
    assert max(each.mean for each in breaker) < 1.0
    assert rates["dumbbot", "honest"].honesty is None
    assert rates["honest", "breaker"].games == 3
    assert all(rate.attack_rate is not None and rate.attack_rate.mean >= 0 for rate in rates.values())


def test_the_rate_is_events_over_phases_with_an_interval_between_games() -> None:
    seats = {"FRANCE": "a", "ITALY": "b"}
    games = [(seats, {("FRANCE", "ITALY"): Conduct(phases=10, supports=supports)}) for supports in (5, 7, 3)]
    [(pair, rate)] = conduct_rates(games).items()
    assert pair == ("a", "b")
    assert rate.support_rate is not None
    assert rate.support_rate.mean == pytest.approx(0.5)
    assert rate.support_rate.interval is not None
    low, high = rate.support_rate.interval
    assert low == pytest.approx(0.5 - 4.302653 * 0.2 / 3**0.5, abs=1e-5)
    assert high == pytest.approx(0.5 + 4.302653 * 0.2 / 3**0.5, abs=1e-5)


def test_conduct_by_year_grows_to_that_of_the_whole_game(games: Any) -> None:
    for _, _, document in games:
        years = conduct_by_year(document, "game")
        assert list(years) == sorted(years)
        assert years[max(years)] == conduct(document, "game")
        for year in list(years)[1:]:
            for pair, before in years[year - 1].items():
                assert before.promises_kept <= years[year][pair].promises_kept
                assert before.promises_broken <= years[year][pair].promises_broken
        # A game that was cut off after a year has the counts of that year.
        cut = {**document, "phases": [each for each in document["phases"] if int(each["name"][1:5]) <= 1903]}
        assert conduct(cut, "game") == years[1903]


def test_honesty_by_year_is_of_all_games_and_one_that_is_over_keeps_its_count() -> None:
    seats = {"FRANCE": "a", "ITALY": "b"}

    def year(kept: int, broken: int) -> dict[tuple[str, str], Conduct]:
        return {("FRANCE", "ITALY"): Conduct(promises_kept=kept, promises_broken=broken)}

    long = {1901: year(0, 0), 1902: year(1, 0), 1903: year(2, 3)}
    found = honesty_by_year([(seats, long), (seats, {1901: year(0, 0), 1902: year(1, 1)}), (seats, {})])
    assert list(found) == [1901, 1902, 1903]
    assert found[1901] == {}
    assert {year: share["a", "b"].mean for year, share in found.items() if share} == {
        1902: pytest.approx(2 / 3),
        1903: pytest.approx(3 / 7),
    }
    assert found[1903]["a", "b"].interval is not None


def test_the_last_year_has_the_honesty_of_whole_games(games: Any) -> None:
    saved = [saved_years(document, "game") for _, _, document in games]
    last = list(honesty_by_year(saved).values())[-1]
    rates = conduct_rates(saved_conduct(document, "game") for _, _, document in games)
    assert last == {pair: rate.honesty for pair, rate in rates.items() if rate.honesty is not None}


def test_games_without_press_have_conduct_and_no_promises() -> None:
    files = sorted(RECORDED_GAMES.glob("*.json"))[:2]
    for file in files:
        players, found = saved_conduct(read_saved_game(file), file.name)
        assert set(players) == set(POWERS)
        assert sum(each.attacks for each in found.values()) > 0
        assert sum(each.promises_kept + each.promises_broken for each in found.values()) == 0


def test_a_phase_that_a_vote_for_a_draw_ended_judges_nobody(tmp_path: Path) -> None:
    game = Diplomacy(GameSettings(press_rounds=1, draw_votes=True)).new_game("", "FRANCE", 0)
    game.step({"FRANCE": ("ENGLAND WILL A PAR - BUR",)})
    assert game.press is not None
    game.step(dict.fromkeys(POWERS, ("DRAW",)))
    assert game.agreed
    assert not game.press.ledger.verdicts
    game.save(tmp_path / "game.json")
    assert not list(negotiated_phases(read_saved_game(tmp_path / "game.json"), "game.json"))


@pytest.mark.parametrize(
    "times",
    [
        (1_600_000_000_000_000, 1_600_000_000_000_300),  # microseconds
        (1_600_000_000_000, 1_600_000_000_300),  # milliseconds
        (1_600_000_000, 1_600_000_300),  # seconds
        (1_600_000_000, 1_600_000_000),  # equal times: in the order of the file
        (0, 1),
        (1, 2),
        (1_000_500, 1_000_900),  # microseconds since the game began
    ],
)
def test_messages_of_other_programs_are_rounds_of_their_own_in_order_of_time(
    times: tuple[int, int], tmp_path: Path
) -> None:
    game = DiplomacyGame(1901)
    game.step({"FRANCE": ("A PAR H",)})
    document = json.loads(game.saved())
    first, second = times
    told = [("FRANCE", "ENGLAND", first, "Let us have peace."), ("ENGLAND", "FRANCE", second, "I agree.")]
    told.append(("SYSTEM", "GLOBAL", second, "PEACE"))
    document["phases"][0]["messages"] = [
        {"sender": sender, "recipient": recipient, "time_sent": time, "phase": "S1901M", "message": text}
        for sender, recipient, time, text in (told if first == second else reversed(told))
    ]
    (tmp_path / "game.json").write_text(json.dumps(document))
    [phase] = negotiated_phases(read_saved_game(tmp_path / "game.json"), "game.json")
    assert [letter.sender for letter in phase.letters] == ["FRANCE", "ENGLAND"]
    assert len({letter.round for letter in phase.letters}) == 2
    assert {promise.kind for promise in phase.promises} == {"PEACE"}
    assert len(phase.promises) == 2
    document["phases"][0]["messages"] = [{"sender": 3}]
    with pytest.raises(SavedGameError, match="messages before S1901M"):
        list(negotiated_phases(document, "game.json"))


def test_times_instead_of_rounds_keep_every_agreement_of_a_game(games: Any) -> None:
    for _, _, document in games:
        own = list(negotiated_phases(document, "game"))
        for start, unit in ((1_600_000_000, 1), (1_600_000_000, 10**3), (1_600_000_000, 10**6), (0, 1), (1, 1)):
            phases, clock = [], start * unit
            for phase in document["phases"]:
                messages = []
                for message in phase["messages"]:
                    clock += 7 * unit
                    messages.append({**message, "time_sent": clock})
                phases.append({**phase, "messages": messages})
            other = list(negotiated_phases({**document, "phases": phases}, "game"))
            for ours, theirs in zip(own, other, strict=True):
                assert [letter.text for letter in theirs.letters] == [letter.text for letter in ours.letters]
                # What was written at once may now be an answer; of orders for one unit, the later one counts.
                agreed, kept = ({each for each in phase.promises if each.kind != "ORDER"} for phase in (ours, theirs))
                assert kept >= agreed


def test_a_game_that_began_in_a_position_has_its_rounds(tmp_path: Path) -> None:
    world = Diplomacy(GameSettings(press_rounds=2))
    state = world.new_game("", "FRANCE", 0).state()  # type: ignore[attr-defined]
    game = DiplomacyGame.from_state(state, 1902)
    world.agree(game)
    game.step({"FRANCE": ("ENGLAND PEACE",), "ENGLAND": ("FRANCE DMZ ENG",)})
    game.step({"ENGLAND": ("FRANCE ACCEPT",)})
    game.step({"FRANCE": ("A PAR H",)})
    game.save(tmp_path / "game.json")
    [phase] = negotiated_phases(read_saved_game(tmp_path / "game.json"), "game.json")
    assert [letter.round for letter in phase.letters] == [0, 0, 1]
