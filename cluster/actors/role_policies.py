"""The learner's specialists in a rollout actor's engine, one for each power; they are swapped all together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from opponents.players.policy import Decision, Policy
from services.environments.diplomacy.position import POWERS, Position
from services.inference.engine import LEARNER, Engine
from services.weights.payload import Payload, WeightsError


@dataclass(slots=True, eq=False)
class _Generation:
    """The specialists of one swap, kept while they are the newest or in use by a decision."""

    names: Mapping[str, str]  # power -> the engine's policy
    users: int = 0


class Specialists:
    """One policy of the engine for each power, ``learner/FRANCE#2`` after the second swap.

    Every swap uses new names. Seats use them only after all seven have passed their probes, and decisions under older
    weights are not disturbed.
    """

    def __init__(self, engine: Engine, make_policy: Callable[[str, float], Policy]) -> None:
        """Hold no specialists before the first swap; ``make_policy`` takes a policy name and a temperature."""
        self._engine = engine
        self._make_policy = make_policy
        self._newest = _Generation({})
        self._swaps = 0

    def seat(self, temperature: float) -> Policy:
        """A policy that plays each power as its newest specialist."""
        return _ByPower(self, temperature)

    async def swap(self, payload: Payload) -> None:
        """Take a verified payload's specialists; decisions under way finish with the old ones.

        After an error all old specialists stay in use. Raises WeightsError if the payload does not have exactly one
        specialist for each power; EngineError if the engine refuses one, or its results with one differ from the
        learner's.
        """
        specialists = payload.by_role
        if specialists.keys() != set(POWERS):
            found = ", ".join(specialists) or "none"
            raise WeightsError(f"weights of version {payload.version} are not the seven powers' specialists: {found}")
        self._swaps += 1
        coming = _Generation({power: f"{LEARNER}/{power}#{self._swaps}" for power in POWERS})
        try:
            for power, name in coming.names.items():
                data, probe = specialists[power]
                await self._engine.update_weights(data, payload.version, policy=name, probe=probe)
        except BaseException:
            self._remove(coming)
            raise
        before, self._newest = self._newest, coming
        if not before.users:
            self._remove(before)

    async def act(self, position: Position, power: str, seed: int, temperature: float) -> Decision:
        """Write one order sheet as the newest specialist of ``power``; raises as ``LLMPolicy.act`` does."""
        with self._using() as names:
            return await self._make_policy(names[power], temperature).act(position, power, seed)

    @contextmanager
    def _using(self) -> Iterator[Mapping[str, str]]:
        generation = self._newest
        generation.users += 1
        try:
            yield generation.names
        finally:
            generation.users -= 1
            if not generation.users and generation is not self._newest:
                self._remove(generation)

    def _remove(self, generation: _Generation) -> None:
        for name in generation.names.values():
            self._engine.remove_policy(name)


class _ByPower:
    """A seat; see ``Specialists.seat``."""

    def __init__(self, specialists: Specialists, temperature: float) -> None:
        self._specialists = specialists
        self._temperature = temperature

    async def act(self, position: Position, power: str, seed: int) -> Decision:
        """Orders for ``power``, as its specialist."""
        return await self._specialists.act(position, power, seed, self._temperature)
