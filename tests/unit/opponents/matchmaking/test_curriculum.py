"""The curriculum: countries move up when they surely do better than equals would, down when surely worse."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from opponents.matchmaking.curriculum import Curriculum, curriculum_order, level_step
from opponents.population.member import PopulationError
from opponents.ratings.game_score import GameScore
from opponents.settings import OpponentsSettings
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.scoring.calibration import base_shares
from services.inference.engine import LEARNER
from tests.unit.opponents.league_cases import member, snapshot
from tests.unit.opponents.world_cases import Cards, finished, score

RULES = OpponentsSettings(curriculum_up=1.2, curriculum_down=0.6, curriculum_games=8)
BOTS = (member("dumbbot"), member("greedy"), member("random"))
SETTINGS = OpponentsSettings(
    members={"random": 1, "greedy": 1, "dumbbot": 1}, matchmaking="curriculum", curriculum_games=8
)
ORDER = ["bot/random", "bot/greedy", "bot/dumbbot"]


def games(
    power: str, own: int, opponent: str, count: int = 8, other: str = "bot/other", seats: int = 6
) -> list[GameScore]:
    """Games of the learner against ``seats`` of ``opponent``; all others end with four centres."""
    others = [each for each in POWERS if each != power]
    players = {power: LEARNER} | {each: opponent if n < seats else "bot/other" for n, each in enumerate(others)}
    return [score(players, {each: own if each == power else 4 for each in POWERS})] * count


@given(st.lists(st.floats(0, 1), max_size=7), st.floats(0.01, 0.4))
@examples(max_examples=30)
def test_few_or_no_games_do_not_change_the_level(shares: list[float], base: float) -> None:
    assert level_step(shares, base, RULES) == 0


@given(st.floats(0, 1), st.integers(8, 100), st.floats(0.05, 0.4))
@examples(max_examples=30)
def test_a_constant_score_is_compared_with_the_thresholds(share: float, count: int, base: float) -> None:
    found = level_step([share] * count, base, RULES)
    # Rounding of the mean must not decide a test that asks for more than the threshold.
    if share > base * RULES.curriculum_up * (1 + 1e-9):
        assert found == 1
    elif share < base * RULES.curriculum_down * (1 - 1e-9):
        assert found == -1
    elif base * RULES.curriculum_down * (1 + 1e-9) < share < base * RULES.curriculum_up * (1 - 1e-9):
        assert found == 0


@given(st.lists(st.floats(0, 1), min_size=8, max_size=40), st.floats(0.05, 0.4), st.randoms(use_true_random=False))
@examples(max_examples=30)
def test_order_does_not_matter_and_better_games_never_lower_a_step(
    shares: list[float], base: float, rng: random.Random
) -> None:
    found = level_step(shares, base, RULES)
    assert level_step(rng.sample(shares, len(shares)), base, RULES) == found
    assert level_step([min(1.0, share + 0.1) for share in shares], base, RULES) >= found or max(shares) > 0.9


def test_an_uncertain_mean_does_not_change_the_level() -> None:
    unsure = [0.0, 1.0] * 4  # its mean is far above, but so could luck be
    assert level_step(unsure, 0.14, RULES) == 0
    assert level_step(unsure * 20, 0.14, RULES) == 1


@given(own=st.integers(0, 18), power=st.sampled_from(POWERS))
@examples(max_examples=40)
def test_a_constant_score_never_moves_back_and_forth(own: int, power: str) -> None:
    curriculum = Curriculum(SETTINGS, base_shares(1910))
    levels = []
    for _ in range(12):
        curriculum.record(games(power, own, curriculum.opponent(power, BOTS)), power, BOTS)
        levels.append(curriculum.levels[power])
    assert levels == sorted(levels)  # from level 0 it only moves up
    assert levels[-1] in (0, 2)
    others = {each: level for each, level in curriculum.levels.items() if each != power}
    assert set(others.values()) == {0}


def test_noise_between_the_thresholds_does_not_change_the_level() -> None:
    rng = random.Random(3)
    curriculum = Curriculum(SETTINGS, base_shares(1910))
    base = base_shares(1910)["FRANCE"]
    curriculum.record(games("FRANCE", 18, "bot/random"), "FRANCE", BOTS)
    assert curriculum.levels["FRANCE"] == 1
    shares = []
    for _ in range(60):
        played = [game for own in rng.choices([1, 3, 4, 5], k=8) for game in games("FRANCE", own, "bot/greedy", 1)]
        shares += [game.score("FRANCE") for game in played]
        curriculum.record(played, "FRANCE", BOTS)
        assert curriculum.levels["FRANCE"] == 1
    assert 0.7 * base < sum(shares) / len(shares) < 1.1 * base
    assert level_step([1.0, *shares[:7]], base, RULES) == 0


def test_a_country_moves_up_level_by_level_and_down_when_it_loses() -> None:
    curriculum = Curriculum(SETTINGS, base_shares(1910))
    moves = []
    for own in (12,) * 4 + (0,) * 8:
        opponent = curriculum.opponent("ITALY", BOTS)
        if move := curriculum.record(games("ITALY", own, opponent), "ITALY", BOTS):
            moves.append((move.opponent, move.is_up))
    assert moves == [("bot/greedy", True), ("bot/dumbbot", True), ("bot/greedy", False), ("bot/random", False)]
    assert curriculum.levels == dict.fromkeys(POWERS, 0)


def test_base_shares_depend_on_the_length_of_the_game() -> None:
    assert base_shares(1905)["RUSSIA"] > 1.2 * base_shares(1910)["RUSSIA"]
    assert base_shares(1904)["TURKEY"] == pytest.approx((base_shares(1903)["TURKEY"] + base_shares(1905)["TURKEY"]) / 2)
    assert (base_shares(1899), base_shares(1999)) == (base_shares(1901), base_shares(1920))
    assert all(sum(base_shares(year).values()) == pytest.approx(1.0, abs=2e-3) for year in range(1901, 1930))
    # With equal centres Russia has a seventh: clearly more than among equals by 1910, and less so by 1905.
    for until_year, is_up in ((1905, False), (1910, True)):
        curriculum = Curriculum(SETTINGS, base_shares(until_year))
        assert 0.106 * 1.2 < 1 / 7 < 0.136 * 1.2
        moved = curriculum.record(games("RUSSIA", 4, "bot/random"), "RUSSIA", BOTS)
        assert (moved is not None) == is_up


def test_games_against_others_do_not_count() -> None:
    curriculum = Curriculum(SETTINGS, base_shares(1910))
    for unrelated in (games("ITALY", 12, "bot/greedy", 50), games("ITALY", 12, "bot/random", 50, seats=3)):
        assert curriculum.record(unrelated, "ITALY", BOTS) is None
    # Of the four seats that are not the learner's own, three are the opponent of the level.
    mixed = games("ITALY", 12, "bot/random", seats=3)[0]
    own = dict.fromkeys(list(mixed.seats)[-2:], LEARNER)
    players = {**mixed.seats, **{power: LEARNER for power, who in mixed.seats.items() if who == "bot/other"}, **own}
    assert list(players.values()).count("bot/random") == 3
    assert curriculum.record([GameScore(players, mixed.standing)] * 8, "ITALY", BOTS).is_up


def test_snapshots_follow_the_named_members_by_age_without_specialists() -> None:
    members = (*BOTS, snapshot(8), snapshot(4), snapshot(9, country="ITALY"))
    assert curriculum_order(members, SETTINGS.curriculum) == (*ORDER, "policy/v4", "policy/v8")
    assert curriculum_order(members, ("dumbbot", "policy/v8")) == ("bot/dumbbot", "policy/v8", "policy/v4")
    with pytest.raises(PopulationError, match=r"opponents\.curriculum"):
        Curriculum(SETTINGS, base_shares(1910)).opponent("ITALY", (member("hold"),))


def test_a_country_keeps_its_opponent_when_snapshots_come_and_go() -> None:
    curriculum = Curriculum(SETTINGS, base_shares(1910))
    old = (*BOTS, snapshot(2), snapshot(4))
    for _ in range(4):
        curriculum.record(games("ITALY", 12, curriculum.opponent("ITALY", old)), "ITALY", old)
    assert curriculum.opponent("ITALY", old) == "policy/v4"
    new = (*BOTS, snapshot(4), snapshot(6))  # the oldest has gone
    curriculum.record(games("ITALY", 4, "policy/v4", 1), "ITALY", new)
    assert curriculum.levels["ITALY"] == 3
    assert curriculum.opponent("ITALY", new) == "policy/v4"
    assert curriculum.opponent("ITALY", BOTS) == "bot/dumbbot"  # of the members a block may know, the nearest
    later = (*BOTS, snapshot(6))
    assert curriculum.record(games("ITALY", 12, "policy/v4"), "ITALY", later) is None  # that opponent is gone
    assert curriculum.opponent("ITALY", later) == "policy/v6"


def test_impossible_curriculum_settings_are_refused() -> None:
    for keys, hint in (
        ({"matchmaking": "curriculum"}, "'greedy' is none of the members"),
        ({"curriculum": ("random", "random")}, "a member is named twice"),
        ({"curriculum_up": 1.0, "curriculum_down": 1.0}, "curriculum_down must be less"),
        ({"curriculum": ()}, "at least 1 item"),
    ):
        with pytest.raises(ValueError, match=hint):
            OpponentsSettings(**keys)


def test_the_levels_round_trip_through_disk(tmp_path) -> None:
    path = tmp_path / "curriculum.json"
    curriculum = Curriculum.load(path, SETTINGS, base_shares(1910))
    curriculum.record(games("ITALY", 12, "bot/random"), "ITALY", BOTS)
    curriculum.record(games("ITALY", 12, "bot/greedy", 7), "ITALY", BOTS)
    curriculum.save(path)
    again = Curriculum.load(path, SETTINGS, base_shares(1910))
    assert again.levels == curriculum.levels == dict.fromkeys(POWERS, 0) | {"ITALY": 1}
    assert again.record(games("ITALY", 12, "bot/greedy", 1), "ITALY", BOTS).opponent == "bot/dumbbot"
    path.write_text(path.read_text().replace("ITALY", "ITALIA"))
    with pytest.raises(PopulationError, match=r"is damaged: it does not name AUSTRIA, ENGLAND, .*, TURKEY alone"):
        Curriculum.load(path, SETTINGS, base_shares(1910))


def test_three_seats_have_levels_of_their_own(tmp_path) -> None:
    members = (member("fold"), member("raise"))
    settings = OpponentsSettings(
        members={"fold": 1, "raise": 1}, matchmaking="curriculum", curriculum=("fold", "raise"), curriculum_games=2
    )
    curriculum = Curriculum(settings, Cards().rating_scale.base_shares)
    won = GameScore({"C": "bot/fold", "A": LEARNER, "B": "bot/fold"}, finished(["A", "BC"]))
    level = GameScore(won.seats, finished(["ABC"]))
    assert curriculum.record([level] * 8, "A", members) is None  # a third is what equals get
    moved = curriculum.record([won] * 40, "A", members)
    assert moved is not None
    assert (moved.level, moved.opponent) == (1, "bot/raise")
    assert curriculum.levels == {"C": 0, "A": 1, "B": 0}
    curriculum.save(tmp_path / "curriculum.json")
    with pytest.raises(PopulationError, match="does not name white, black alone"):
        Curriculum.load(tmp_path / "curriculum.json", settings, {"white": 0.5, "black": 0.5})
