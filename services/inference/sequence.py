"""One decision while it is being generated: which tokens to feed next, which may follow, and what was sampled."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from services.inference.engine import EngineError, Generation, GenerationRequest
from services.inference.sampling import stream
from services.inference.token_masks import ConstraintError, SheetConstraint, SheetState


@dataclass(frozen=True, slots=True, eq=False)
class ModelLimits:
    """Which ids a model has, and how many tokens fit into its context."""

    vocabulary: NDArray[np.int32]  # (V,) every id
    end_ids: frozenset[int]  # those that end free text
    context: int  # tokens of a prompt and its completion

    @classmethod
    def of(cls, vocab_size: int, eos_token_id: int | Collection[int] | None, context: int) -> ModelLimits:
        """Make the limits from fields of a transformers configuration."""
        ends = eos_token_id if isinstance(eos_token_id, Collection) else [] if eos_token_id is None else [eos_token_id]
        return cls(np.arange(vocab_size, dtype=np.int32), frozenset(ends), context)


@dataclass(slots=True, eq=False)
class FreeState:
    """``SheetState`` for free text: every id may follow, up to an end id or the last token that fits."""

    limits: ModelLimits
    left: int  # tokens that may still be written
    ended: bool = False  # by an end id
    finished: bool = False

    def forced(self) -> list[int]:
        """Return nothing: no token is forced."""
        return []

    def admissible(self) -> NDArray[np.int32]:
        """Return every id."""
        return self.limits.vocabulary

    def advance(self, token_id: int) -> None:
        """Write ``token_id``."""
        self.left -= 1
        self.ended = token_id in self.limits.end_ids
        self.finished = self.ended or self.left == 0


def initial_state(request: GenerationRequest, limits: ModelLimits) -> SheetState | FreeState:
    """Return a decision's first state. Raises ``EngineError`` if prompt or sheet do not fit the model."""
    if not request.temperature >= 0:
        raise EngineError(f"temperature {request.temperature} is not a number from 0 on")
    prompt, size, context = request.prompt_ids, len(limits.vocabulary), limits.context
    if not prompt:
        raise EngineError("the prompt is empty; a decision starts from at least one token")
    if min(prompt) < 0 or max(prompt) >= size:
        raise EngineError(f"a prompt id is outside the model's {size} tokens: check the tokenizer")
    room = min(request.max_completion_length, context - len(prompt))
    if request.constraint is None:
        if room < 1:
            raise EngineError(f"a prompt of {len(prompt)} tokens leaves no room in a context of {context}")
        return FreeState(limits, room)
    try:
        longest, highest = request.constraint.longest, request.constraint.highest_id
        state = SheetState(request.constraint)
    except ConstraintError as error:
        raise EngineError(f"the order sheet cannot be written: {error}") from error
    if highest >= size:
        raise EngineError(f"the sheet's token {highest} is outside the model's {size} tokens")
    if longest > room:
        raise EngineError(
            f"a sheet of up to {longest} tokens does not fit: prompt {len(prompt)}, "
            f"context {context}, max_completion_length {request.max_completion_length}"
        )
    return state


@dataclass(slots=True, eq=False)
class RunningSequence:
    """A request and the tokens generated for it so far."""

    request: GenerationRequest
    state: SheetState | FreeState
    failure: ConstraintError | None = None  # why the sheet cannot be completed
    fed: int = 0  # tokens whose keys and values are cached
    stream: int = field(init=False)  # the start of its random numbers
    completion: list[int] = field(init=False)
    pending: list[int] = field(init=False)  # tokens to feed before the next choice
    _sampled_at: list[int] = field(default_factory=list)
    _logprobs: list[float] = field(default_factory=list)
    _admissible: list[NDArray[np.int32]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stream = stream(self.request.seed)
        self.completion = self.state.forced()
        self.pending = [*self.request.prompt_ids, *self.completion]

    @property
    def sampled(self) -> int:
        """Tokens sampled so far."""
        return len(self._sampled_at)

    @property
    def over(self) -> bool:
        """Whether the text is complete or cannot be completed."""
        return self.state.finished or self.failure is not None

    def accept(self, token: int, logprob: float, admissible: NDArray[np.int32]) -> None:
        """Write a sampled token and the forced ones after it; all pending tokens count as fed."""
        self.fed += len(self.pending)
        self._sampled_at.append(len(self.completion))
        self._logprobs.append(logprob)
        self._admissible.append(admissible)
        try:
            self.state.advance(token)
        except ConstraintError as error:
            self.failure = error
            return
        self.pending = [token, *self.state.forced()]
        self.completion += self.pending

    def generation(self, policy_version: int) -> Generation:
        """Return the completion so far as an engine does."""
        length, sampled = len(self.completion), self.sampled
        logprobs = np.zeros(length, np.float32)
        logprobs[self._sampled_at] = self._logprobs
        sampled_mask = np.zeros(length, np.bool_)
        sampled_mask[self._sampled_at] = True
        if isinstance(self.state, FreeState):
            finished = self.state.ended
            admissible_ids = offsets = np.empty(0, np.int32)
        else:
            finished = True
            offsets = np.zeros(sampled + 1, np.int32)
            np.cumsum([len(ids) for ids in self._admissible], out=offsets[1:])
            admissible_ids = np.concatenate(self._admissible) if sampled else np.empty(0, np.int32)
        return Generation(
            completion_ids=np.array(self.completion, np.int32),
            logprobs=logprobs,
            sampled_mask=sampled_mask,
            admissible_ids=admissible_ids,
            admissible_offsets=offsets,
            policy_version=policy_version,
            finished=finished,
        )


def teacher_forced_generation(constraint: SheetConstraint, completion_ids: Sequence[int]) -> Generation:
    """Return what an engine would return had it sampled this whole sheet, end id included.

    Log-probabilities and version are 0. Raises ``ConstraintError`` if the mask does not admit the sheet.
    """
    sequence = RunningSequence(GenerationRequest((), constraint, seed=0), SheetState(constraint))
    while not sequence.over:
        position = len(sequence.completion)
        if position >= len(completion_ids):
            raise ConstraintError(f"the sheet ends after {position} tokens, before the mask does")
        sequence.accept(completion_ids[position], 0.0, sequence.state.admissible())
    if sequence.failure is not None:
        raise sequence.failure
    if sequence.completion != list(completion_ids):
        raise ConstraintError(f"the sheet leaves its mask: {list(completion_ids)} instead of {sequence.completion}")
    return sequence.generation(policy_version=0)
