"""Two engines behind one interface, so that opponents' full weights do not take turns with the learner's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from grpo_core.errors import CheckpointError
from grpo_core.models.lora import adapter_config_of
from grpo_core.types import Probe
from services.inference.engine import LEARNER, Engine, EngineError, Generation, GenerationRequest
from services.inference.scoring import Scorer, ScoringEngine


class PairedEngine:
    """An ``Engine``: the learner and every adapter in the first, others' full weights in the second."""

    def __init__(self, learners: Engine, opponents: Engine) -> None:
        self._learners = learners
        self._opponents = opponents
        self._in_second: set[str] = set()  # policies of the second engine

    async def generate(self, request: GenerationRequest) -> Generation:
        """Queue one decision with the engine that has its policy."""
        return await self._engine_of(request.policy).generate(request)

    def scorer(self, policy: str) -> Scorer:
        """Return the scorer of the engine that has the policy; raises ``EngineError`` if that engine has none."""
        engine = self._engine_of(policy)
        if not isinstance(engine, ScoringEngine):
            raise EngineError("this engine does not tell the probabilities of texts; open the policy with torch")
        return engine.scorer(policy)

    async def update_weights(
        self, payload: bytes | memoryview, version: int, policy: str = LEARNER, probe: Probe | None = None
    ) -> None:
        """Swap one policy's weights in the engine for their kind."""
        try:
            second = policy != LEARNER and adapter_config_of(payload) is None
        except CheckpointError as error:
            raise EngineError(f"weights of {policy!r} version {version} were refused: {error}") from error
        await (self._opponents if second else self._learners).update_weights(payload, version, policy, probe)
        if second:
            self._learners.remove_policy(policy)  # it may have been an adapter before
            self._in_second.add(policy)
        elif policy in self._in_second:
            self._in_second.discard(policy)
            self._opponents.remove_policy(policy)

    def remove_policy(self, policy: str) -> None:
        """Remove an opponent's weights; unknown names are ignored."""
        self._engine_of(policy).remove_policy(policy)
        self._in_second.discard(policy)

    def stats(self) -> Mapping[str, float]:
        """Return the sums of both engines' counters; ``busy_seconds`` may exceed the seconds that passed."""
        first, second = self._learners.stats(), self._opponents.stats()
        return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}

    async def sleep(self) -> None:
        """Put both to sleep."""
        await asyncio.gather(self._learners.sleep(), self._opponents.sleep())

    async def wake(self) -> None:
        """Wake both."""
        await asyncio.gather(self._learners.wake(), self._opponents.wake())

    async def close(self) -> None:
        """Close both."""
        await asyncio.gather(self._learners.close(), self._opponents.close())

    def _engine_of(self, policy: str) -> Engine:
        return self._opponents if policy in self._in_second else self._learners
