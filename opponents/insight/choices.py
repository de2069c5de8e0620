"""The choices along one order sheet: every legal order of each unit, with its probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from opponents.insight.question import InsightError, Question, open_question
from opponents.players.llm_policy import LLMPolicy
from services.environments.playing import Slot, View
from services.inference.token_masks import Alternatives

_Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OrderChoice:
    """One unit's choice, given the orders that are written before it on the sheet."""

    orders: tuple[str, ...]  # the legal ones, likeliest first
    probabilities: tuple[float, ...]  # of these orders; their sum is 1
    entropy: float  # nats
    chosen: str

    @property
    def chosen_probability(self) -> float:
        """The probability of what was chosen."""
        return self.probabilities[self.orders.index(self.chosen)]


async def order_choices(
    policy: LLMPolicy, view: View, seat: str, orders: Sequence[str], *, thought: Sequence[int] | None = None
) -> list[OrderChoice]:
    """The choices of a sheet in the sequence in which the policy writes it, one for each order, forced ones included.

    Probabilities are those under the mask and at the policy's temperature (0 counts as 1), each given the orders
    before it: their product along the sheet is the sheet's probability. ``orders`` need not be complete: units without
    one hold or disband, and builds are waived. ``thought`` is as in ``likeliest_sheets``.

    Raises InsightError where the policy tells no probabilities or ``orders`` are not legal, EngineError if the prompt
    does not fit.
    """
    question = await open_question(policy, view, seat, thought)
    sheet = _complete(policy, view, seat, orders, question.slots)
    parts = [_Part.of(question, number, sheet) for number in range(len(sheet))]
    texts, ids = [], []
    written = question.text
    for part, limits in zip(parts, question.constraint.slots, strict=True):
        written += limits.note
        texts += [(*written, *prefix) for prefix in part.branches]
        ids += [np.array(tokens, np.int32) for tokens in part.branches.values()]
        written += part.spelled[part.chosen]
    scores = iter(await question.scorer.logprobs(texts, ids, question.temperature) if texts else [])
    return [part.choice([next(scores) for _ in part.branches]) for part in parts]


@dataclass(frozen=True, slots=True)
class _Part:
    """One slot of a sheet, after the orders before it."""

    spelled: dict[str, _Tokens]  # the orders that are legal here
    branches: dict[_Tokens, tuple[int, ...]]  # first tokens of several orders -> which may follow, ascending
    chosen: str

    @classmethod
    def of(cls, question: Question, number: int, sheet: Sequence[str]) -> _Part:
        slot, constraint = question.slots[number], question.constraint.slots[number]
        before = set(_claims(question.slots, sheet)[:number])
        free = [claim is None or claim not in before for claim in slot.claims]
        spelled = {
            order: tokens
            for order, tokens, legal in zip(slot.alternatives, constraint.alternatives, free, strict=True)
            if legal
        }
        return cls(spelled, _branches(tuple(spelled.values())), sheet[number])

    def choice(self, logprobs: Sequence[NDArray[np.float64]]) -> OrderChoice:
        """The choice, from the log-probabilities of what may follow each of ``branches``."""
        steps = {
            (*prefix, token): logprob
            for (prefix, tokens), scores in zip(self.branches.items(), logprobs, strict=True)
            for token, logprob in zip(tokens, scores.tolist(), strict=True)
        }
        total = {
            order: sum(steps.get(prefix, 0.0) for prefix in accumulate((token,) for token in tokens))
            for order, tokens in self.spelled.items()
        }
        ranked = sorted(total, key=lambda order: -total[order])
        logs = np.array([total[order] for order in ranked])
        probabilities = np.exp(logs)
        return OrderChoice(
            tuple(ranked), tuple(probabilities.tolist()), float(-(probabilities * logs).sum()) + 0.0, self.chosen
        )


def _branches(alternatives: Alternatives) -> dict[_Tokens, tuple[int, ...]]:
    """The first tokens of several alternatives after which more than one may follow, shortest first."""
    following: dict[_Tokens, set[int]] = {}
    for tokens in alternatives:
        for length, token in enumerate(tokens):
            following.setdefault(tokens[:length], set()).add(token)
    branches = {prefix: tuple(sorted(after)) for prefix, after in following.items() if len(after) > 1}
    return dict(sorted(branches.items(), key=lambda branch: len(branch[0])))


def _claims(slots: Sequence[Slot], sheet: Sequence[str]) -> list[str | None]:
    return [slot.claims[slot.alternatives.index(order)] for slot, order in zip(slots, sheet, strict=True)]


def _complete(
    policy: LLMPolicy, view: View, seat: str, orders: Sequence[str], slots: Sequence[Slot]
) -> tuple[str, ...]:
    """The whole sheet, one order a slot; InsightError if it is not legal."""
    sheet = tuple(orders)
    if slots and not _fits(slots, sheet):
        sheet = policy.tokens.language.written(sheet, view, seat)
    if not _fits(slots, sheet) or not set(orders) <= set(sheet):
        raise InsightError(f"these are not legal orders of {seat}: {', '.join(orders)}")
    return sheet


def _fits(slots: Sequence[Slot], sheet: Sequence[str]) -> bool:
    if len(sheet) != len(slots) or any(
        order not in slot.alternatives for slot, order in zip(slots, sheet, strict=True)
    ):
        return False
    claims = [claim for claim in _claims(slots, sheet) if claim is not None]
    return len(claims) == len(set(claims))
