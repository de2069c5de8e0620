"""A listener: how likely it finds a partner's orders, and that the partner keeps its promises."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grpo_core.statistics.estimate import Estimate
from grpo_core.statistics.means import clustered_mean
from grpo_core.statistics.roc import area_under_curve
from opponents.insight.choices import order_choices
from opponents.listening.questions_asked import AskedGame
from opponents.players.llm_policy import LLMPolicy
from services.environments.diplomacy.measures.press.questions import Question
from services.environments.diplomacy.text.listener_language import BROKE, KEPT, Heard


@dataclass(frozen=True, slots=True)
class HeardGame:
    """What a listener made of one game, in the sequence of ``AskedGame``'s questions."""

    game: AskedGame
    broken: tuple[float, ...]  # probability that promises are broken, of ``judged``
    with_press: tuple[float, ...]  # bits of surprise at the orders, of ``expected``
    without_press: tuple[float, ...]


async def listen(policy: LLMPolicy, game: AskedGame) -> HeardGame:
    """Ask a listener all questions of a game; ``policy`` speaks ``ListenerLanguage``. Raises as ``order_choices``."""
    broken = await asyncio.gather(*(_broken(policy, each) for each in game.judged))
    heard = await asyncio.gather(*(_surprise(policy, each, hears=True) for each in game.expected))
    unheard = await asyncio.gather(*(_surprise(policy, each, hears=False) for each in game.expected))
    return HeardGame(game, tuple(broken), tuple(heard), tuple(unheard))


async def _broken(policy: LLMPolicy, question: Question) -> float:
    heard = Heard(question.view, question.partner, "JUDGE")
    (choice,) = await order_choices(policy, heard, question.reader, (KEPT,))
    return choice.probabilities[choice.orders.index(BROKE)]


async def _surprise(policy: LLMPolicy, question: Question, *, hears: bool) -> float:
    heard = Heard(question.view, question.partner, "EXPECT", hears)
    choices = await order_choices(policy, heard, question.reader, question.orders)
    return -math.fsum(math.log2(max(choice.chosen_probability, 1e-300)) for choice in choices)


@dataclass(frozen=True, slots=True)
class Hearing:
    """How well a listener reads partners; intervals hold between games. None where there was nothing to ask."""

    promises: int  # pairs of powers and phases with a promise that could be broken
    broken: float | None  # share of these in which one was
    area: Estimate | None  # probability that a broken one is found likelier to be broken than a kept one
    sheets: int
    bits: Estimate | None  # surprise at an order sheet, with the press
    gained: Estimate | None  # bits less than without the press


def hearing(games: Iterable[HeardGame], partner: str | None = None) -> Hearing:
    """Sum up games; with ``partner`` the questions about this player alone."""
    lied: list[list[float]] = []
    kept: list[list[float]] = []
    bits: list[list[float]] = []
    gained: list[list[float]] = []
    for each in games:
        asked = each.game

        def is_meant(question: Question, seated: AskedGame = asked) -> bool:
            return partner is None or seated.seated.get(question.partner) == partner

        judged = [(own.kept, score) for own, score in zip(asked.judged, each.broken, strict=True) if is_meant(own)]
        lied.append([score for is_kept, score in judged if not is_kept])
        kept.append([score for is_kept, score in judged if is_kept])
        sheets = [
            (heard, unheard)
            for own, heard, unheard in zip(asked.expected, each.with_press, each.without_press, strict=True)
            if is_meant(own)
        ]
        bits.append([heard for heard, _ in sheets])
        gained.append([unheard - heard for heard, unheard in sheets])
    lies, promises = _count(lied), _count(lied) + _count(kept)
    return Hearing(
        promises=promises,
        broken=lies / promises if promises else None,
        area=area_under_curve(lied, kept),
        sheets=_count(bits),
        bits=clustered_mean(bits, (0.0, math.inf)),
        gained=clustered_mean(gained),
    )


def _count(clusters: Sequence[Sequence[float]]) -> int:
    return sum(map(len, clusters))
