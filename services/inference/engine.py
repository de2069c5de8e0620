"""The engine protocol: prompts and masks in, sampled ids with their behaviour log-probabilities out.

The torch engine and vLLM implement it. An engine may hold several policies (weights or adapters) by name; training
updates the one named ``"learner"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from grpo_core.errors import EntenteError
from services.inference.token_masks import SheetConstraint

if TYPE_CHECKING:  # they import torch and transformers, which importers of the policies' names need not wait for
    from grpo_core.types import Probe
    from services.inference.stop_text import StopText
    from services.inference.thoughts import ThoughtFormat

LEARNER = "learner"


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One decision to generate."""

    prompt_ids: tuple[int, ...]
    constraint: SheetConstraint | None  # None: free text, the whole vocabulary is admissible
    seed: int  # the same request with the same weights and seed gives the same tokens
    temperature: float = 1.0  # 0 = greedy (log-probabilities are then those at temperature 1)
    # Tokens without the thought's; a constrained sheet that does not fit is refused before decoding.
    max_completion_length: int = 256
    policy: str = LEARNER  # the policy that generates it
    thought: ThoughtFormat | None = None  # written before the rest; left out before a sheet without a choice
    stop: StopText | None = None  # ends a free text besides the model's end ids; sheets end by themselves


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """A finished decision. Axes as in ``grpo_core.types.Turn``: T tokens, S sampled, A admissible ids in all."""

    completion_ids: NDArray[np.int32]  # (T,)
    logprobs: NDArray[np.float32]  # (T,) 0 where forced
    sampled_mask: NDArray[np.bool_]  # (T,)
    admissible_ids: NDArray[np.int32]  # (A,), empty when free; none of a thought's tokens
    admissible_offsets: NDArray[np.int32]  # (S + 1,), empty when free
    policy_version: int  # version of the weights that wrote the first token; a swap takes effect between decisions
    finished: bool  # False: cut off at max_completion_length
    answer_start: int = 0  # index of the first token after the thought and what is forced around it


class EngineError(EntenteError, RuntimeError):
    """An engine could not start, swap weights or answer; the message says what to change."""


class Engine(Protocol):
    """Writes decisions for many games at once."""

    async def generate(self, request: GenerationRequest) -> Generation:
        """Queue one decision and wait for it.

        Raises ``EngineError`` if the policy is unknown, prompt or sheet do not fit, or the engine is closed.
        """

    async def update_weights(
        self, payload: bytes | memoryview, version: int, policy: str = LEARNER, probe: Probe | None = None
    ) -> None:
        """Swap one policy's weights in place (full ones or an adapter), adding the policy if the name is new.

        Decisions in flight finish under the weights they began with; later ones carry ``version``, the learner's update
        count. ``payload`` holds safetensors bytes (an adapter's header holds its configuration), ``probe`` what the
        learner computes with these weights. Raises ``EngineError``, and keeps the old weights, if it is not
        safetensors, names or shapes do not match the model, or the engine does not compute what the probe holds.
        """

    def remove_policy(self, policy: str) -> None:
        """Remove a policy: its decisions in flight finish, its queued ones fail. Unknown names are ignored."""

    def stats(self) -> Mapping[str, float]:
        """Return totals since the start (decisions, {completion,sampled,prompt}_tokens, busy_seconds) and the queue."""

    async def sleep(self) -> None:
        """Finish the decisions in flight, else raise ``EngineError``; hold later ones, and leave the GPU to others."""

    async def wake(self) -> None:
        """Resume after ``sleep``; a no-op when awake."""

    async def close(self) -> None:
        """Fail all unfinished decisions and free the memory; a no-op when closed."""
