"""Ten recorded games: every order is legal here, survives the words, and leads to the recorded centres."""

import json
from itertools import pairwise

import pytest

from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.text.notation import join, render, split, words
from tests.paths import RECORDED_GAMES

GAMES = sorted(RECORDED_GAMES.glob("*.json"))
# The one sheet in 21,831 orders that leaves a disband to civil disorder.
CIVIL_DISORDER = {("game_TUR.55.json", "W1905A", "ENGLAND")}

needs_games = pytest.mark.skipif(not GAMES, reason="the recorded games (../shared/data/diplomacy_games) are absent")


def recorded_board(phase):
    return {part: {power: sorted(phase["state"][part][power]) for power in POWERS} for part in ("units", "centers")}


@needs_games
@pytest.mark.parametrize("path", GAMES, ids=lambda path: path.stem)
def test_recorded_game_replays_order_by_order(path):
    phases = json.loads(path.read_text())["phases"]
    game, known, longest = DiplomacyGame(until_year=1999), frozenset(words()), 0
    texts = {order for phase in phases for orders in phase["orders"].values() for order in orders or ()}
    for text in texts:
        assert known.issuperset(split(f"{text}\n"))
        assert join(split(f"{text}\n")) == f"{text}\n"
    for phase, after in pairwise(phases):
        position = game.position
        assert position.phase == phase["name"]
        for power, orders in phase["orders"].items():
            prompt = split(render(position, power))
            assert known.issuperset(prompt)
            longest = max(longest, len(prompt))
            defects = game.set_orders(power, orders or ())
            if (path.name, position.phase, power) in CIVIL_DISORDER:
                assert [(defect.text, defect.reason) for defect in defects] == [("D", "missing")]
            else:
                assert defects == ()
        game.process()
        state = game.state()
        standing = {power: sorted(state["units"][power]) for power in POWERS}
        owned = {power: sorted(state["centers"][power]) for power in POWERS}
        assert {"units": standing, "centers": owned} == recorded_board(after)
    assert longest <= 110


@needs_games
@pytest.mark.parametrize("path", GAMES, ids=lambda path: path.stem)
def test_recorded_file_loads_at_its_last_phase(path):
    game = DiplomacyGame.load(path, until_year=1999)
    last = json.loads(path.read_text())["phases"][-1]
    assert game.centers() == {power: len(last["state"]["centers"][power]) for power in POWERS}
    assert game.is_done == (last["name"] == "COMPLETED")
    if game.is_done:
        assert game.outcome().kind == "solo"
        assert game.outcome().winners == ("FRANCE",)
