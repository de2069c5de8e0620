"""One decision while it is being written: what to feed next, what may follow, and what was sampled so far."""

from __future__ import annotations

import asyncio
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.inference.constraints import ConstraintError, SheetState
from services.inference.engine import EngineError, Generation, GenerationRequest
from services.inference.sampling import stream


class TextState(Protocol):
    """What may follow, token by token; ``SheetState`` and ``FreeState``."""

    @property
    def finished(self) -> bool:
        """True once nothing is left to write."""
        ...

    def forced(self) -> list[int]:
        """The tokens that follow without choice, taken."""
        ...

    def admissible(self) -> NDArray[np.int32]:
        """The ids to choose from, ascending."""
        ...

    def advance(self, token_id: int) -> None:
        """Write one of them."""
        ...


class FreeState:
    """The whole vocabulary until the end id or the last token that fits."""

    __slots__ = ("_end_ids", "_vocabulary", "ended", "finished", "left")

    def __init__(self, vocabulary: NDArray[np.int32], end_ids: frozenset[int], limit: int) -> None:
        self._vocabulary = vocabulary
        self._end_ids = end_ids
        self.left = limit  # tokens that may still be written
        self.ended = False  # by an end id
        self.finished = False

    def forced(self) -> list[int]:
        """Nothing is ever forced."""
        return []

    def admissible(self) -> NDArray[np.int32]:
        """Every id."""
        return self._vocabulary

    def advance(self, token_id: int) -> None:
        """Write any id."""
        self.left -= 1
        self.ended = token_id in self._end_ids
        self.finished = self.ended or self.left == 0


def begin_writing(
    request: GenerationRequest, vocabulary: NDArray[np.int32], end_ids: frozenset[int], context: int
) -> SheetState | FreeState:
    """The state of a decision that nothing was written of.

    Args:
        request: the decision.
        vocabulary: (V,) every id of the model.
        end_ids: those that end free text.
        context: tokens the model can hold, prompt and completion.

    Raises:
        EngineError: a prompt or sheet that does not fit, or ids outside the vocabulary.
    """
    if not request.temperature >= 0:
        raise EngineError(f"temperature {request.temperature} is not a number from 0 on")
    prompt, size = request.prompt_ids, len(vocabulary)
    if not prompt:
        raise EngineError("the prompt is empty; a decision starts from at least one token")
    if min(prompt) < 0 or max(prompt) >= size:
        raise EngineError(f"a prompt id is outside the model's {size} tokens: check the tokenizer")
    room = context - len(prompt)
    if request.constraint is None:
        limit = min(request.max_completion_length, room)
        if limit < 1:
            raise EngineError(f"a prompt of {len(prompt)} tokens leaves no room in a context of {context}")
        return FreeState(vocabulary, end_ids, limit)
    try:
        longest, highest = request.constraint.longest, request.constraint.highest_id
        state = SheetState(request.constraint)
    except ConstraintError as error:
        raise EngineError(f"the order sheet cannot be written: {error}") from error
    if highest >= size:
        raise EngineError(f"the sheet's token {highest} is outside the model's {size} tokens")
    if longest > min(request.max_completion_length, room):
        raise EngineError(
            f"a sheet of up to {longest} tokens does not fit: prompt {len(prompt)}, "
            f"context {context}, max_completion_length {request.max_completion_length}"
        )
    return state


class RunningSequence:
    """A request on its way to a ``Generation``."""

    __slots__ = (
        "_admissible",
        "_logprobs",
        "_sampled_at",
        "answer",
        "completion",
        "failure",
        "fed",
        "pending",
        "request",
        "state",
        "stream",
    )

    def __init__(
        self, request: GenerationRequest, state: SheetState | FreeState, answer: asyncio.Future[Generation]
    ) -> None:
        self.request = request
        self.state: TextState = state
        self.answer = answer
        self.stream = stream(request.seed)
        self.failure: ConstraintError | None = None  # the sheet cannot be completed
        self.fed = 0  # tokens whose keys and values are cached
        self.completion = state.forced()
        self.pending = [*request.prompt_ids, *self.completion]  # tokens to feed before the next choice
        self._sampled_at: list[int] = []
        self._logprobs: list[float] = []
        self._admissible: list[NDArray[np.int32]] = []

    @property
    def sampled(self) -> int:
        """Tokens sampled so far."""
        return len(self._sampled_at)

    @property
    def over(self) -> bool:
        """Nothing is left to write, nothing can be, or whoever asked has gone."""
        return self.state.finished or self.failure is not None or self.answer.done()

    def accept(self, token: int, logprob: float, admissible: NDArray[np.int32]) -> None:
        """Write a sampled token and whatever is forced to follow it; all pending tokens count as fed."""
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
        """What was written."""
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
