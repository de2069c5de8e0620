"""One decision of a language policy, ready for questions about its probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grpo_core.errors import EntenteError
from opponents.players.llm_policy import LLMPolicy
from services.environments.playing import Decision, Slot, View
from services.inference.scoring import Scorer, ScoringEngine
from services.inference.token_masks import SheetConstraint


class InsightError(EntenteError, RuntimeError):
    """Probabilities cannot be told: the engine has none, answers are free text, or a sheet is not legal."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a policy has read and thought when it begins a sheet, and what it may write."""

    text: tuple[int, ...]  # the tokens of prompt and thought
    slots: tuple[Slot, ...]
    constraint: SheetConstraint
    scorer: Scorer
    temperature: float


async def open_question(policy: LLMPolicy, view: View, seat: str, thought: Sequence[int] | None) -> Question:
    """Read the prompt; ``thought`` are the tokens between prompt and sheet (None: a thought is sampled with seed 0).

    Raises InsightError where the policy's engine tells no probabilities or no mask says what may be written,
    EngineError if the prompt does not fit the model.
    """
    slots = policy.tokens.slots(view, seat)
    if slots is None:
        raise InsightError("answers of this world are free text: there are no legal orders to tell probabilities of")
    if not isinstance(policy.engine, ScoringEngine):
        raise InsightError("this policy's engine does not tell probabilities; open its checkpoint with torch")
    before = await policy.thought(view, seat, 0) if thought is None else tuple(thought)
    return Question(
        text=(*policy.tokens.prompt(view, seat), *before),
        slots=slots,
        constraint=policy.tokens.constraint(slots),
        scorer=policy.engine.scorer(policy.policy),
        temperature=policy.temperature,
    )


def thought_of(policy: LLMPolicy, decision: Decision) -> tuple[int, ...]:
    """The tokens that a decision under the mask has before its sheet; () where nothing is thought."""
    if decision.turn is None or policy.tokens.thought is None:
        return ()
    sheet = sum(map(policy.tokens.line_length, decision.actions)) + 1  # and the end id
    return tuple(decision.turn.completion_ids[:-sheet].tolist())
