"""The order sheets that a player is likeliest to write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from math import exp

from opponents.insight.question import Question, open_question
from opponents.players.llm_policy import LLMPolicy
from services.environments.playing import Bot, View
from services.inference.token_masks import ConstraintError, SheetState

_BEAMS_PER_SHEET = 4


@dataclass(frozen=True, slots=True)
class SheetChoice:
    """A legal order sheet, in the sequence in which it is written, and its probability (0 to 1)."""

    orders: tuple[str, ...]
    probability: float


@dataclass(frozen=True, slots=True, eq=False)
class _Beam:
    """A sheet that is being written: its tokens so far end where a choice is due, or with the end id."""

    logprob: float
    tokens: tuple[int, ...]
    state: SheetState

    def written(self, token: int, logprob: float) -> _Beam | None:
        """Return the beam after a token and what it forces; None if it leaves a later slot no choice."""
        state = self.state.copy()
        try:
            state.advance(token)
        except ConstraintError:
            return None
        return _Beam(self.logprob + logprob, (*self.tokens, token, *state.forced()), state)


async def likeliest_sheets(
    policy: LLMPolicy, view: View, seat: str, count: int = 5, *, thought: Sequence[int] | None = None
) -> list[SheetChoice]:
    """The ``count`` most probable legal order sheets, likeliest first; fewer if there are fewer, none without a choice
    of orders at all.

    They are found by a beam search over the mask's tokens, four beams a sheet, so they are not guaranteed to be the
    likeliest: a sheet whose first orders are improbable may be missed. Their probabilities are exact, under the mask
    and at the policy's temperature (0 counts as 1). Builds and disbands may be written in any sequence: the sequences
    that the search found count as one sheet, whose probability is their sum.

    ``thought`` are the tokens that a policy that thinks has written before the sheet; None: one thought is sampled, and
    the probabilities are those after it. A policy that plays without a mask is judged as if it had one. Raises
    InsightError where the policy tells no probabilities, EngineError if the prompt does not fit.
    """
    question = await open_question(policy, view, seat, thought)
    if not question.slots:
        return []
    beams = await _search(question, _BEAMS_PER_SHEET * count)
    sheets = [
        SheetChoice(policy.tokens.actions(question.slots, list(beam.tokens)), exp(beam.logprob)) for beam in beams
    ]
    return nlargest(count, _joined(sheets), key=lambda sheet: sheet.probability)


def frequent_sheets(bot: Bot, view: View, seat: str, seeds: Iterable[int]) -> list[SheetChoice]:
    """The sheets that a bot writes under these seeds, with their shares of them, the most frequent first.

    Builds and disbands in another sequence are the same sheet.
    """
    written = [SheetChoice(bot.actions(view, seat, seed), 1.0) for seed in seeds]
    counted = Counter(tuple(sorted(sheet.orders)) for sheet in written)
    first = {tuple(sorted(sheet.orders)): sheet.orders for sheet in reversed(written)}
    return [SheetChoice(first[key], number / len(written)) for key, number in counted.most_common() if key]


async def _search(question: Question, width: int) -> list[_Beam]:
    """Return at most ``width`` complete sheets."""
    state = SheetState(question.constraint)
    beams = [_Beam(0.0, tuple(state.forced()), state)]
    while open_beams := [beam for beam in beams if not beam.state.finished]:
        ids = [beam.state.admissible() for beam in open_beams]
        texts = [(*question.text, *beam.tokens) for beam in open_beams]
        logprobs = await question.scorer.logprobs(texts, ids, question.temperature)
        candidates = [
            (beam.logprob + logprob, beam, token, logprob)
            for beam, tokens, scores in zip(open_beams, ids, logprobs, strict=True)
            for token, logprob in zip(tokens.tolist(), scores.tolist(), strict=True)
        ]
        complete = [beam for beam in beams if beam.state.finished]
        longer = (
            beam.written(token, logprob)
            for _, beam, token, logprob in nlargest(width, candidates, key=lambda candidate: candidate[0])
        )
        beams = nlargest(width, [*complete, *(beam for beam in longer if beam)], key=lambda beam: beam.logprob)
    return beams


def _joined(sheets: Sequence[SheetChoice]) -> list[SheetChoice]:
    """Join sheets of the same orders in other sequences; the likeliest sequence stands for all."""
    joined: dict[tuple[str, ...], SheetChoice] = {}
    for sheet in sheets:  # likeliest first
        key = tuple(sorted(sheet.orders))
        first = joined.get(key)
        together = sheet.probability + (first.probability if first else 0.0)
        joined[key] = SheetChoice((first or sheet).orders, together)
    return list(joined.values())
