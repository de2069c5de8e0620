"""Which questions of saved games a listener learns from or is asked, and their turns."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grpo_core.seeds import derive_seed
from grpo_core.types import Turn
from opponents.demonstrations import demonstration_turn
from opponents.players.llm_policy import TokenizedLanguage
from services.environments.diplomacy.game_origin import seated_players
from services.environments.diplomacy.measures.press.questions import Question, questions
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.text.listener_language import BROKE, KEPT, Heard


@dataclass(frozen=True, slots=True)
class AskedGame:
    """The questions of one game, by what they are about."""

    name: str
    seated: Mapping[str, str]  # power -> its player; the power's own name where the file does not say
    judged: tuple[Question, ...]  # whether promises will be kept
    expected: tuple[Question, ...]  # which orders will be given


def asked_game(
    document: Mapping[str, Any], name: str, partners: Collection[str] = (), most: int = 60, seed: int = 0
) -> AskedGame:
    """Draw at most ``most`` questions of each kind from a document that ``read_saved_game`` returned.

    With ``partners`` only these players are asked about. Raises SavedGameError for a damaged game.
    """
    seated = dict(seated_players(document)) or {power: power for power in POWERS}
    found = [each for each in questions(document, name) if not partners or seated.get(each.partner) in partners]
    judged = [each for each in found if each.kept is not None]
    expected = [each for each in found if each.orders]

    def drawn(kind: str, among: list[Question]) -> tuple[Question, ...]:
        rng = random.Random(derive_seed(seed, "questions", name, kind))
        return tuple(among if len(among) <= most else rng.sample(among, most))

    return AskedGame(name, seated, drawn("judged", judged), drawn("expected", expected))


def listener_turns(tokens: TokenizedLanguage, game: AskedGame, seed: int) -> Iterator[Turn]:
    """The turns that teach a listener; half of the predictions of orders are without the press."""
    rng = random.Random(derive_seed(seed, "hears", game.name))
    for each in game.judged:
        word = KEPT if each.kept else BROKE
        yield demonstration_turn(tokens, Heard(each.view, each.partner, "JUDGE"), each.reader, (word,))
    for each in game.expected:
        heard = Heard(each.view, each.partner, "EXPECT", hears=rng.random() < 0.5)
        turn = demonstration_turn(tokens, heard, each.reader, each.orders)
        if turn.trained_mask.any():
            yield turn
