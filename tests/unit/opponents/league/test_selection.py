"""Selection: the bound holds; the newest, strongest and most different stay; some members never retire."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from opponents.league.selection import (
    STRENGTH_SIGMAS,
    Candidate,
    candidate_of,
    distance,
    retirements,
    select_retirements,
)
from opponents.population.member import Member
from opponents.ratings.book import RatingBook
from opponents.settings import OpponentsSettings
from services.environments.diplomacy.position import POWERS
from tests.unit.opponents.league_cases import member, snapshot
from tests.unit.opponents.world_cases import Cards, diplomacy_book, score

ALIKE = (0.0,) * 7
OTHER = (60.0, -60.0, 60.0, -60.0, 60.0, -60.0, 0.0)

fields = st.lists(
    st.builds(
        Candidate,
        id=st.integers(0, 40).map(lambda number: f"policy/v{number}"),
        age=st.integers(0, 8),
        strength=st.integers(-4, 4).map(float),
        by_role=st.lists(st.integers(-3, 3).map(float), min_size=7, max_size=7).map(tuple),
    ),
    min_size=1,
    max_size=9,
    unique_by=lambda candidate: candidate.id,
)


@settings(max_examples=40)
@given(fields, st.integers(1, 9), st.sampled_from([0.0, 0.5, 2.0]), st.randoms(use_true_random=False))
def test_the_bound_holds_the_newest_and_the_strongest_stay_whatever_the_order(
    candidates: list[Candidate], most: int, diversity: float, chance: random.Random
) -> None:
    leaving = retirements(candidates, most, diversity)
    gone = {each.id for each in leaving}
    assert len(candidates) - len(gone) == min(most, len(candidates))
    by_id = sorted(candidates, key=lambda each: each.id)
    newest = max(by_id, key=lambda each: each.age)
    others = sorted((each for each in by_id if each != newest), key=lambda each: -each.strength)
    assert newest.id not in gone
    if most > 1 and others:
        assert others[0].id not in gone
    if diversity == 0:
        assert gone == {each.id for each in others[most - 1 :]}
    chance.shuffle(candidates)
    assert retirements(candidates, most, diversity) == leaving


@settings(max_examples=25)
@given(fields, st.integers(3, 8))
def test_with_large_diversity_no_retired_candidate_is_farther_than_the_kept_are_apart(
    candidates: list[Candidate], most: int
) -> None:
    gone = {each.id: each for each in retirements(candidates, most, 1e9)}
    assume(gone)
    kept = [each for each in candidates if each.id not in gone]
    newest = max(sorted(kept, key=lambda each: each.id), key=lambda each: each.age)
    rest = [each for each in kept if each != newest]
    first = max(sorted(rest, key=lambda each: each.id), key=lambda each: each.strength)
    chosen = [each for each in rest if each != first]
    apart = min(min(distance(each, other) for other in kept if other != each) for each in chosen)
    assert all(each.distance <= apart + 1e-9 for each in gone.values())


def test_a_different_candidate_stays_instead_of_a_stronger_copy() -> None:
    strong, copy = Candidate("policy/v8", 8, 300.0, ALIKE), Candidate("policy/v7", 7, 290.0, ALIKE)
    odd, newest = Candidate("policy/v3", 3, 250.0, OTHER), Candidate("policy/v9", 9, 200.0, ALIKE)
    candidates = [strong, copy, odd, newest]
    (retired,) = retirements(candidates, 3, 1.0)
    assert (retired.id, retired.strength, retired.distance) == ("policy/v7", 290.0, 0.0)
    assert retired.nearest in ("policy/v8", "policy/v9")
    assert [each.id for each in retirements(candidates, 3, 0.0)] == ["policy/v3"]
    assert [each.id for each in retirements(candidates, 3, 0.5)] == ["policy/v3"]  # 28 points do not outweigh 40
    assert distance(odd, strong) == pytest.approx((6 * 60**2 / 7) ** 0.5)


def test_ties_are_broken_by_id_and_specialists_compared_by_strength_alone() -> None:
    same = [Candidate(f"policy/{name}", 1, 5.0) for name in "dbca"]
    assert [each.id for each in retirements(same, 2, 1.0)] == ["policy/c", "policy/d"]


def book_of(strengths: dict[str, int]) -> RatingBook:
    """Ratings of players after each has repeatedly beaten the random bot by a number of places."""
    book = diplomacy_book()
    for player, places in strengths.items():
        seats = dict(zip(POWERS, [player, *["bot/random"] * 6], strict=True))
        for turn in range(7):
            powers = POWERS[turn:] + POWERS[:turn]
            centers = dict(zip(powers, [3 * places, *range(1, 19, 3)], strict=True))
            book.record(score(dict(zip(powers, seats.values(), strict=True)), centers))
    return book


def ids_of(members: list[Member], book: RatingBook, **keys: object) -> list[str]:
    return [each.id for each in select_retirements(members, book, OpponentsSettings(**keys))]  # type: ignore[arg-type]


def test_the_weakest_retires_but_never_pinned_imported_or_anchor_members() -> None:
    strengths = {"policy/v1": 5, "policy/v2": 0, "policy/v3": 1, "policy/v4": 3, "policy/guest": 0}
    book = book_of(strengths)
    guest = snapshot(9, id="policy/guest", source="/runs/other")
    members = [member("random"), member("gpt", "remote"), guest, *(snapshot(version) for version in (1, 2, 3, 4))]
    assert ids_of(members, book) == []  # no bound by default
    assert ids_of(members, book, max_members=4) == []
    assert ids_of(members, book, max_members=3) == ["policy/v2"]
    assert ids_of(members, book, max_members=2) == ["policy/v2", "policy/v3"]
    assert ids_of(members, book, max_members=1) == ["policy/v1", "policy/v2", "policy/v3"]
    pinned = [snapshot(2, pinned=True) if each.id == "policy/v2" else each for each in members]
    assert ids_of(pinned, book, max_members=3) == []
    assert ids_of(pinned, book, max_members=2) == ["policy/v3"]
    assert ids_of(members, book, max_members=3, anchors=("policy/v2",)) == []


def test_each_country_has_a_bound_of_its_own() -> None:
    specialists = [
        member(f"v{version}-{power}", "policy", version=version, country=power)
        for power in ("FRANCE", "ITALY")
        for version in (1, 2, 3)
    ]
    book = diplomacy_book()
    for each in specialists:
        book.add(each.id)
    for _ in range(4):  # as Italy the oldest is the best, as France the second one; no other has played
        for power, player in (("ITALY", "policy/v1-ITALY"), ("FRANCE", "policy/v2-FRANCE")):
            seats = {other: player if other == power else "bot/random" for other in POWERS}
            book.record(score(seats, {other: 18 if other == power else 3 for other in POWERS}, solo=power))
    members = [*specialists, snapshot(1), snapshot(2)]
    assert ids_of(members, book, max_members=2) == ["policy/v1-FRANCE", "policy/v2-ITALY"]
    as_italy = book.rating("policy/v1-ITALY", "ITALY")
    candidate = candidate_of(specialists[3], book)
    assert candidate.strength == pytest.approx(as_italy.mu - STRENGTH_SIGMAS * as_italy.sigma)
    assert candidate.by_role == ()


def test_uncertain_strength_does_not_protect_a_member() -> None:
    book = book_of({"policy/v1": 2})
    book.add("policy/v2")
    book.add("policy/v3")
    unproven = candidate_of(snapshot(2), book)
    assert candidate_of(snapshot(1), book).strength > unproven.strength
    assert unproven.by_role == pytest.approx(ALIKE)  # an unmeasured member does not count as different
    assert ids_of([snapshot(1), snapshot(2), snapshot(3)], book, max_members=2) == ["policy/v2"]


def test_candidates_of_another_world_differ_by_its_roles() -> None:
    book = RatingBook(Cards().roles, Cards().rating_scale)
    for player in ("policy/v1", "policy/v2-A"):
        book.add(player)
    assert candidate_of(snapshot(1), book).by_role == pytest.approx((0.0,) * 3)
    assert candidate_of(member("v2-A", "policy", version=2, country="A"), book).by_role == ()
