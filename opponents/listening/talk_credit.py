"""Credit for talk: what letters tell a policy of its partners' orders, and how far its own letters move theirs.

Both are figures in bits that come of exact probabilities under the mask of legal orders. They are reward parts of a
seat: paid by their weights, and logged by themselves also with a weight of 0.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from opponents.insight.choices import OrderChoice, order_choices
from opponents.insight.question import InsightError
from opponents.players.llm_policy import LLMPolicy
from services.environments.playing import LISTENING, SPEAKING, TALK_PARTS, Decision, Game, Policy, View
from services.inference.scoring import ScoringEngine


@dataclass(frozen=True, slots=True)
class TalkCredit:
    """Computes the parts of a learner seat; ``policy`` is its own, which ``listening`` asks what partners will do."""

    policy: LLMPolicy
    parts: frozenset[str]  # of ``TALK_PARTS``
    # One sheet at a time, over all games: each is scored with a key-value cache of its own.
    scoring: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1), compare=False)

    @classmethod
    def wanted(cls, policy: Policy, weights: Collection[str]) -> TalkCredit | None:
        """The credit that reward weights name; None if they name none.

        Raises InsightError if ``policy`` tells no probabilities.
        """
        parts = frozenset(weights) & frozenset(TALK_PARTS)
        if not parts:
            return None
        if not _tells_probabilities(policy):
            raise InsightError(
                f'the reward part {min(parts)} needs probabilities; set inference.engine = "torch", or leave it out'
            )
        return cls(policy, parts)

    async def earned(
        self, game: Game, seat: str, seats: Mapping[str, Policy], decisions: Mapping[str, Decision]
    ) -> dict[str, float]:
        """The parts that ``seat`` earns by the talk before ``decisions``, which the game has not taken yet.

        listening: bits by which the policy, asked in each partner's place, is less surprised at the partner's orders
        when it reads the letters between the two than when it reads none; the mean over partners.
        speaking: how far the seat's letters moved the orders of those that read them, as the divergence (in bits) of
        their probabilities from what they would be without these letters, summed along the orders that were given; the
        mean over partners. Other readers than policies under a mask in an engine that tells probabilities count 0.

        Orders that the policy could not have written, such as illegal ones of a free text, count 0 as well. Raises
        EngineError as ``order_choices``.
        """
        partners = game.heard_of_partners(seat)
        if not partners:
            return {}
        found: dict[str, float] = {}
        if LISTENING in self.parts:
            told = [
                await self._told(heard, unheard, partner, decisions[partner].actions)
                for partner, (heard, unheard) in partners.items()
            ]
            found[LISTENING] = math.fsum(told) / len(partners)
        if SPEAKING in self.parts:
            moved = [
                await self._moved(reader, game.view(partner), silent, partner, decisions[partner].actions)
                for partner, silent in game.had_it_not_spoken(seat).items()
                if _tells_probabilities(reader := seats[partner])
            ]
            found[SPEAKING] = math.fsum(moved) / len(partners)
        return found

    async def _told(self, heard: View, unheard: View, partner: str, orders: Sequence[str]) -> float:
        """Bits of surprise at a partner's orders that letters spare."""
        with_letters, without = await self._both(self.policy, heard, unheard, partner, orders)
        return sum(_bits(each.chosen_probability) for each in without) - sum(
            _bits(each.chosen_probability) for each in with_letters
        )

    async def _moved(self, reader: LLMPolicy, view: View, silent: View, partner: str, orders: Sequence[str]) -> float:
        """The divergence of a reader's choices with letters from those without, in bits, along its orders."""
        with_letters, without = await self._both(reader, view, silent, partner, orders)
        return math.fsum(map(divergence, with_letters, without))

    async def _both(
        self, policy: LLMPolicy, view: View, other: View, seat: str, orders: Sequence[str]
    ) -> tuple[list[OrderChoice], list[OrderChoice]]:
        """The choices along one sheet under two views; none where the sheet cannot be written."""
        async with self.scoring:
            try:
                first = await order_choices(policy, view, seat, orders)
                return first, await order_choices(policy, other, seat, orders)
            except InsightError:
                return [], []


def divergence(choice: OrderChoice, other: OrderChoice) -> float:
    """The Kullback-Leibler divergence of one choice's probabilities from another's over the same orders, in bits."""
    against = dict(zip(other.orders, other.probabilities, strict=True))
    return math.fsum(
        probability * (_bits(against[order]) - _bits(probability))
        for order, probability in zip(choice.orders, choice.probabilities, strict=True)
    )


def _tells_probabilities(policy: Policy) -> TypeGuard[LLMPolicy]:
    """Whether a policy chooses under a mask, without a thought, in an engine that tells probabilities."""
    if not (isinstance(policy, LLMPolicy) and policy.constrained and policy.tokens.thought is None):
        return False
    return isinstance(policy.engine, ScoringEngine)


def _bits(probability: float) -> float:
    return -math.log2(max(probability, 1e-300))
