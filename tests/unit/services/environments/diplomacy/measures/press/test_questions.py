"""Questions in saved games: what a reader knew then, as the game itself showed it, and what came of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from opponents.play import play_game
from services.environments.diplomacy.measures.press.questions import questions
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.view import PressPosition, writes_press
from services.environments.diplomacy.saved_game import read_saved_game
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import Bot, Decision

TALKERS = ("honest", "keeper", "breaker", "stabber", "chatter", "dumbbot", "honest")
WORLD = Diplomacy(GameSettings(until_year=1904, press_rounds=2))


class Watched:
    """Keeps the view before each movement order sheet, and the sheet."""

    def __init__(self, bot: Bot, seen: dict[tuple[str, str], tuple[PressPosition, tuple[str, ...]]]) -> None:
        self._bot, self._seen = bot, seen

    async def act(self, view: Any, seat: str, seed: int) -> Decision:
        decision = await self._bot.act(view, seat, seed)
        if view.kind == "M" and not writes_press(view):
            self._seen[view.phase, seat] = view, decision.actions
        return decision


@pytest.mark.parametrize("seed", range(3))
def test_a_saved_game_shows_readers_what_the_game_showed_them(tmp_path: Path, seed: int) -> None:
    game = WORLD.new_game("", "FRANCE", seed)
    seen: dict[tuple[str, str], tuple[PressPosition, tuple[str, ...]]] = {}
    seats = {power: Watched(WORLD.make_bot(name), seen) for power, name in zip(POWERS, TALKERS, strict=True)}
    asyncio.run(play_game(game, seats, seed))
    game.save(tmp_path / "game.json")
    found = list(questions(read_saved_game(tmp_path / "game.json"), "game.json"))
    broken = 0
    for each in found:
        view, _ = seen[each.view.phase, each.reader]
        ours, theirs = each.view.press, view.press
        assert ours.writes is None
        for name in ("letters", "earlier", "promises", "accounts", "waiting"):
            assert getattr(ours, name) == getattr(theirs, name), (each.view.phase, each.reader, name)
        assert set(each.orders) == set(seen[each.view.phase, each.partner][1])
        broken += each.kept is False
    assert len(found) == sum(len([power for phase, power in seen if phase == each]) - 1 for each, _ in seen)
    verdicts = [each for each in game.press.ledger.verdicts if each.tested]  # type: ignore[union-attr]
    assert broken == len({(each.phase, each.promise.giver, each.promise.partner) for each in verdicts if not each.kept})
    assert broken > 10
