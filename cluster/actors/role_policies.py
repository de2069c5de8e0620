"""The learner's specialists in a rollout actor's engine, one for each role; they are swapped all together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from opponents.players.llm_policy import LLMPolicy
from opponents.prompts.policy_prompt import PromptView
from services.environments.playing import Decision, Policy, View
from services.inference.engine import LEARNER, Engine
from services.weights.payload import Payload, WeightsError


@dataclass(slots=True, eq=False)
class _Generation:
    """The specialists of one swap, kept while they are the newest or in use by a decision."""

    names: Mapping[str, str]  # role -> the engine's policy
    users: int = 0


class Specialists:
    """One policy of the engine for each role, ``learner/FRANCE#2`` after the second swap.

    Every swap uses new names. Seats use them only after all have passed their probes, and decisions under older
    weights are not disturbed.
    """

    def __init__(self, engine: Engine, roles: Sequence[str], make_policy: Callable[[str, float], Policy]) -> None:
        """Hold no specialists before the first swap; ``make_policy`` takes a policy name and a temperature."""
        self._engine = engine
        self._roles = tuple(roles)
        self._make_policy = make_policy
        self._newest = _Generation({})
        self._swaps = 0

    def seat(self, temperature: float) -> Policy:
        """A policy that plays each role as its newest specialist."""
        return _ByPower(self, temperature)

    async def swap(self, payload: Payload) -> None:
        """Take a verified payload's specialists; decisions under way finish with the old ones.

        After an error all old specialists stay in use. Raises WeightsError if the payload does not have exactly one
        specialist for each role; EngineError if the engine refuses one, or its results with one differ from the
        learner's.
        """
        specialists = payload.by_role
        if specialists.keys() != set(self._roles):
            found = ", ".join(specialists) or "none"
            raise WeightsError(f"weights of version {payload.version} are not one specialist for each role: {found}")
        self._swaps += 1
        coming = _Generation({role: f"{LEARNER}/{role}#{self._swaps}" for role in self._roles})
        try:
            for role, name in coming.names.items():
                data, probe = specialists[role]
                await self._engine.update_weights(data, payload.version, policy=name, probe=probe)
        except BaseException:
            self._remove(coming)
            raise
        before, self._newest = self._newest, coming
        if not before.users:
            self._remove(before)

    async def act(self, view: View, seat: str, seed: int, temperature: float) -> Decision:
        """Answer as the newest specialist of ``seat``; raises as ``LLMPolicy.act`` does."""
        with self._using() as names:
            return await self._make_policy(names[seat], temperature).act(view, seat, seed)

    def newest(self, seat: str, temperature: float) -> Policy:
        """The newest specialist of ``seat``, which the engine keeps until the next swap."""
        return self._make_policy(self._newest.names[seat], temperature)

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

    async def act(self, view: View, seat: str, seed: int) -> Decision:
        """Act as the specialist of ``seat``."""
        return await self._specialists.act(view, seat, seed, self._temperature)

    async def specialist(self, seat: str) -> Policy:
        """The policy that plays ``seat`` now."""
        return self._specialists.newest(seat, self._temperature)

    def read(self, view: View, seat: str) -> PromptView:
        """The prompt of ``act``."""
        policy = self._specialists.newest(seat, self._temperature)
        assert isinstance(policy, LLMPolicy)
        return policy.read(view, seat)
