"""Two engines behind one face: the learner's, and one for opponents whose full weights would take turns in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from grpo_core.errors import CheckpointError
from grpo_core.models.lora import adapter_config_of
from grpo_core.models.weight_probe import Probe
from services.inference.engine import LEARNER, Engine, EngineError, Generation, GenerationRequest


class PairedEngine:
    """Implements ``engine.Engine``: the learner and every adapter in the first, others' full weights in the second.

    Both begin with the same weights.
    """

    def __init__(self, learners: Engine, opponents: Engine) -> None:
        self._learners = learners
        self._opponents = opponents
        self._elsewhere: set[str] = set()  # policies that live in the second engine

    async def generate(self, request: GenerationRequest) -> Generation:
        """Queue one decision with whichever engine holds its policy.

        Raises:
            EngineError: as that engine does.
        """
        return await self._home(request.policy).generate(request)

    async def update_weights(
        self, payload: bytes | memoryview, version: int, policy: str = LEARNER, probe: Probe | None = None
    ) -> None:
        """Swap one policy's weights where they belong.

        Raises:
            EngineError: as that engine does; the old weights stay in use.
        """
        try:
            elsewhere = policy != LEARNER and adapter_config_of(payload) is None
        except CheckpointError as error:
            raise EngineError(f"weights of {policy!r} version {version} were refused: {error}") from error
        await (self._opponents if elsewhere else self._learners).update_weights(payload, version, policy, probe)
        if elsewhere:
            self._learners.remove_policy(policy)  # it may have been an adapter before
            self._elsewhere.add(policy)
        elif policy in self._elsewhere:
            self._elsewhere.discard(policy)
            self._opponents.remove_policy(policy)

    def remove_policy(self, policy: str) -> None:
        """Forget an opponent's weights; a no-op for an unknown name."""
        self._home(policy).remove_policy(policy)
        self._elsewhere.discard(policy)

    def stats(self) -> Mapping[str, float]:
        """Both engines' counters, summed; ``busy_seconds`` too, so it may exceed the seconds that passed."""
        first, second = self._learners.stats(), self._opponents.stats()
        return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}

    async def sleep(self) -> None:
        """Both."""
        await asyncio.gather(self._learners.sleep(), self._opponents.sleep())

    async def wake(self) -> None:
        """Both."""
        await asyncio.gather(self._learners.wake(), self._opponents.wake())

    async def close(self) -> None:
        """Both."""
        await asyncio.gather(self._learners.close(), self._opponents.close())

    def _home(self, policy: str) -> Engine:
        return self._opponents if policy in self._elsewhere else self._learners
