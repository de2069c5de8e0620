"""Alliances in saved games: by kept promises and supports, in their largest groups, by name."""

from __future__ import annotations

import asyncio
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opponents.play import play_game
from services.environments.diplomacy.measures.press.alliances import (
    NAMES,
    _largest,
    alliance_shares,
    alliances_by_year,
    called,
)
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.saved_game import read_saved_game
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.world import Diplomacy


def test_known_alliances_have_names_and_others_their_powers() -> None:
    assert called(("RUSSIA", "TURKEY")) == "Juggernaut"
    assert called(("ENGLAND", "FRANCE", "GERMANY")) == "Western Triple"
    assert called(("AUSTRIA", "TURKEY")) == "Austria-Turkey"
    assert all(tuple(sorted(powers, key=POWERS.index)) == powers for powers in NAMES)


@given(st.sets(st.sampled_from(list(combinations(POWERS, 2)))))
def test_groups_are_as_large_as_they_can_be_and_have_every_pair(pairs: set[tuple[str, str]]) -> None:
    allied = {power: frozenset(sum((pair for pair in pairs if power in pair), ())) - {power} for power in POWERS}
    found = _largest(allied)
    for group in found:
        assert set(combinations(group, 2)) <= pairs
        assert not any(all(other in allied[power] for power in group) for other in set(POWERS) - set(group))
    assert {pair for group in found for pair in combinations(group, 2)} == pairs


def test_honest_powers_become_allies_and_powers_without_press_do_not(tmp_path: Path) -> None:
    years = {}
    for name in ("honest", "dumbbot"):
        world = Diplomacy(GameSettings(until_year=1903, press_rounds=2))
        game = world.new_game("", "FRANCE", 0)
        asyncio.run(play_game(game, {power: world.make_bot(name) for power in POWERS}, 0))
        game.save(tmp_path / f"{name}.json")
        years[name] = alliances_by_year(read_saved_game(tmp_path / f"{name}.json"), name)
    assert list(years["honest"]) == list(years["dumbbot"]) == [1901, 1902, 1903]
    assert sum(map(len, years["honest"].values())) > 3
    assert not any(years["dumbbot"].values())


def test_shares_are_of_all_years_with_intervals_between_games() -> None:
    both, one = ("RUSSIA", "TURKEY"), ("ENGLAND", "FRANCE")
    shares = alliance_shares([{1901: (both, one), 1902: (both,)}, {1901: (both,), 1902: ()}])
    assert list(shares) == [both, one]
    assert shares[both].mean == pytest.approx(3 / 4)
    assert shares[one].mean == pytest.approx(1 / 4)
    assert shares[both].interval is not None
    assert alliance_shares([]) == {}
