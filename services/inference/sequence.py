"""One decision while it is being generated: which tokens to feed next, which may follow, and what was sampled."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from services.inference.engine import EngineError, Generation, GenerationRequest
from services.inference.sampling import stream
from services.inference.stop_text import StopText
from services.inference.thoughts import ThoughtFormat
from services.inference.token_masks import ConstraintError, SheetConstraint, SheetState

_NO_IDS: NDArray[np.int32] = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class ModelLimits:
    """Which ids a model has, and how many tokens fit into its context."""

    vocabulary: NDArray[np.int32]  # (V,) every id
    end_ids: frozenset[int]  # those that end free text
    context: int  # tokens of a prompt and its completion

    @classmethod
    def of(cls, vocab_size: int, eos_token_ids: Iterable[int | Collection[int] | None], context: int) -> ModelLimits:
        """Make the limits; ``eos_token_ids`` are those of a model's configuration and of its generation settings."""
        ends: set[int] = set()
        for ids in eos_token_ids:
            ends.update([ids] if isinstance(ids, int) else ids or ())
        return cls(np.arange(vocab_size, dtype=np.int32), frozenset(ends), context)


@dataclass(slots=True, eq=False)
class FreeState:
    """``SheetState`` for free text: every id may follow, up to an end id, a stop text or the last token that fits."""

    limits: ModelLimits
    left: int  # tokens that may still be written
    stop: StopText | None = None
    ended: bool = False  # by an end id or the stop text
    finished: bool = False
    written: list[int] = field(default_factory=list)  # for the stop text

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
        if self.stop is not None and not self.ended:
            self.written.append(token_id)
            self.ended = self.stop.ended_by(self.written)
        self.finished = self.ended or self.left == 0


class ThoughtState:
    """A thought and then the rest: its interface is that of the rest."""

    __slots__ = ("_forced", "_left", "_limits", "_thought", "closing", "end_ids", "rest", "thinking")

    def __init__(
        self, thought: ThoughtFormat, limits: ModelLimits, rest: SheetState | FreeState, end_id: int | None = None
    ) -> None:
        """``end_id`` ends a sheet, and a thought as any other end of a text does."""
        self.thinking = True
        self.end_ids = limits.end_ids | ({end_id} if end_id is not None else set())  # of a text
        self.rest = rest
        self._thought = thought
        self._limits = limits
        self._left = thought.max_tokens
        self._forced = thought.opening
        self.closing: tuple[int, ...] = ()  # what was forced after the thought

    @property
    def finished(self) -> bool:
        """Whether the rest is finished, and its forced tokens were taken."""
        return not self.thinking and self.rest.finished and not self._forced

    def forced(self) -> list[int]:
        """Take the tokens that follow without a choice."""
        run, self._forced = self._forced, ()
        return [*run, *(() if self.thinking else self.rest.forced())]

    def admissible(self) -> NDArray[np.int32]:
        """Return every id in the thought, then what the rest admits."""
        return self._limits.vocabulary if self.thinking else self.rest.admissible()

    def advance(self, token_id: int) -> None:
        """Write ``token_id``; raises as the rest does."""
        if not self.thinking:
            self.rest.advance(token_id)
            return
        self._left -= 1
        if token_id == self._thought.end_id:
            self.closing = self._thought.after_end
        elif self._left == 0 or token_id in self.end_ids:
            self.closing = self._thought.closing
        else:
            return
        self._forced = self.closing
        self.thinking = False


def initial_state(request: GenerationRequest, limits: ModelLimits) -> SheetState | FreeState | ThoughtState:
    """Return a decision's first state. Raises ``EngineError`` if prompt or sheet do not fit the model."""
    if not request.temperature >= 0:
        raise EngineError(f"temperature {request.temperature} is not a number from 0 on")
    prompt, size, context = request.prompt_ids, len(limits.vocabulary), limits.context
    if not prompt:
        raise EngineError("the prompt is empty; a decision starts from at least one token")
    if min(prompt) < 0 or max(prompt) >= size:
        raise EngineError(f"a prompt id is outside the model's {size} tokens: check the tokenizer")
    thought = request.thought
    around = 0 if thought is None else thought.longest
    room = min(request.max_completion_length, context - len(prompt) - around)
    if request.constraint is None:
        if room < 1:
            what = f"a prompt of {len(prompt)} tokens" + (f" and a thought of {around}" if around else "")
            raise EngineError(f"{what} leaves no room in a context of {context}")
        free = FreeState(limits, room, request.stop)
        return free if thought is None else ThoughtState(thought, limits, free)
    try:
        longest, highest = request.constraint.longest, request.constraint.highest_id
        state = SheetState(request.constraint)
    except ConstraintError as error:
        raise EngineError(f"the order sheet cannot be written: {error}") from error
    if highest >= size:
        raise EngineError(f"the sheet's token {highest} is outside the model's {size} tokens")
    if not state.has_choice:
        thought, room = None, room + around  # there is nothing to think about
    if longest > room:
        thinking = "" if thought is None else f"thought up to {around}, "
        raise EngineError(
            f"a sheet of up to {longest} tokens does not fit: prompt {len(prompt)}, {thinking}"
            f"context {context}, max_completion_length {request.max_completion_length}"
        )
    return state if thought is None else ThoughtState(thought, limits, state, request.constraint.end_id)


@dataclass(slots=True, eq=False)
class RunningSequence:
    """A request and the tokens generated for it so far."""

    request: GenerationRequest
    state: SheetState | FreeState | ThoughtState
    failure: ConstraintError | None = None  # why the sheet cannot be completed
    fed: int = 0  # tokens whose keys and values are cached
    stream: int = field(init=False)  # the start of its random numbers
    completion: list[int] = field(init=False)
    pending: list[int] = field(init=False)  # tokens to feed before the next choice
    answer_start: int = field(default=0, init=False)  # index of the first token after the thought
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
    def thinking(self) -> bool:
        """Whether the next token belongs to a thought."""
        return isinstance(self.state, ThoughtState) and self.state.thinking

    @property
    def over(self) -> bool:
        """Whether the text is complete or cannot be completed."""
        return self.state.finished or self.failure is not None

    def accept(self, token: int, logprob: float, admissible: NDArray[np.int32]) -> None:
        """Write a sampled token and the forced ones after it; all pending tokens count as fed."""
        self.fed += len(self.pending)
        self._sampled_at.append(len(self.completion))
        self._logprobs.append(logprob)
        state = self.state
        if isinstance(state, FreeState):  # nothing is forced, and the ids that it admits are not kept
            state.advance(token)
            self.completion.append(token)
            self.pending = [token]
            return
        self._admissible.append(_NO_IDS if self.thinking else admissible)
        try:
            state.advance(token)
        except ConstraintError as error:
            self.failure = error
            return
        self.completion.append(token)
        if isinstance(state, ThoughtState) and self.answer_start == 0 and not state.thinking:
            self.answer_start = len(self.completion) + len(state.closing)
        forced = state.forced()
        self.completion += forced
        self.pending = [token, *forced]

    def generation(self, policy_version: int) -> Generation:
        """Return the completion so far as an engine does."""
        length, sampled = len(self.completion), self.sampled
        logprobs = np.zeros(length, np.float32)
        logprobs[self._sampled_at] = self._logprobs
        sampled_mask = np.zeros(length, np.bool_)
        sampled_mask[self._sampled_at] = True
        rest = self.state.rest if isinstance(self.state, ThoughtState) else self.state
        if isinstance(rest, FreeState):
            finished = rest.ended
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
            answer_start=self.answer_start,
        )


def teacher_forced_generation(
    constraint: SheetConstraint, completion_ids: Sequence[int], thought: ThoughtFormat | None = None
) -> Generation:
    """Return what an engine would return had it sampled this whole sheet, end id included.

    It comes after an empty thought, if thoughts are wanted. Log-probabilities and version are 0. Raises
    ``ConstraintError`` if the mask does not admit the sheet.
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
    generation = sequence.generation(policy_version=0)
    return _after_no_thought(generation, thought) if sequence.sampled else generation


def free_generation(completion_ids: Sequence[int], thought: ThoughtFormat | None = None) -> Generation:
    """Return what an engine would return had it sampled this whole free text; log-probabilities and version are 0.

    It comes after an empty thought, if thoughts are wanted.
    """
    length = len(completion_ids)
    generation = Generation(
        completion_ids=np.array(completion_ids, np.int32),
        logprobs=np.zeros(length, np.float32),
        sampled_mask=np.ones(length, np.bool_),
        admissible_ids=np.empty(0, np.int32),
        admissible_offsets=np.empty(0, np.int32),
        policy_version=0,
        finished=True,
    )
    return _after_no_thought(generation, thought)


def _after_no_thought(generation: Generation, thought: ThoughtFormat | None) -> Generation:
    before = () if thought is None else thought.empty
    return replace(
        generation,
        completion_ids=np.concatenate([np.array(before, np.int32), generation.completion_ids]),
        logprobs=np.concatenate([np.zeros(len(before), np.float32), generation.logprobs]),
        sampled_mask=np.concatenate([np.zeros(len(before), np.bool_), generation.sampled_mask]),
        answer_start=len(before),
    )
