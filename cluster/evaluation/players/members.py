"""Members of a run's population as players: ``RUN:policy/v20``, or ``RUN:bot/dumbbot``."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.errors import RunError
from grpo_core.errors import one_line
from opponents.population.member import Member
from opponents.population.population import Population
from services.environments.playing import Decision, View

if TYPE_CHECKING:
    from opponents.players.llm_policy import LLMPolicy
    from opponents.prompts.policy_prompt import PromptView
    from services.inference.engine import Engine

POPULATION = "population.json"  # in a run's folder


def member_name(name: str) -> tuple[Path, str] | None:
    """The run's folder and the member's id in ``RUN:ID``; None for another name."""
    folder, colon, member_id = name.rpartition(":")
    if not colon or "/" not in member_id or not (Path(folder) / POPULATION).is_file():
        return None
    return Path(folder), member_id


def find_member(run: Path, member_id: str) -> tuple[Population, Member]:
    """The population and its member. Raises RunError if there is none of that id that plays every role here.

    PopulationError if the population or the member's file is damaged or has changed.
    """
    population = Population.load(run / POPULATION)
    found = {member.id: member for member in population.members}
    if member_id not in found:
        known = ", ".join(sorted(found)[:20])
        raise RunError(f"{run} has no member {one_line(repr(member_id), 80)}; there are {known}")
    member = found[member_id]
    if member.kind == "remote":
        raise RunError(f"{member_id} answers over the network: name it remote:{member.name} with --config")
    if member.kind == "player":
        raise RunError(f"{member_id} is a policy in its own folder: name that, {one_line(member.source or '', 200)}")
    if member.country is not None:
        raise RunError(f"{member_id} plays {member.country} alone; name a member that plays every role")
    return population, member


class MemberPolicy:
    """A frozen policy of a population, whose weights the engine takes when it first acts."""

    def __init__(self, engine: Engine, name: str, weights: Path, player: Callable[[str], LLMPolicy]) -> None:
        """``player`` makes a player from the name of an engine's policy; ``weights`` has been verified."""
        self._engine = engine
        self._name = name
        self._weights = weights
        self._make = player
        self._loaded: list[LLMPolicy] = []  # shared by copies at other temperatures
        self._temperature: float | None = None  # None: that of ``player``

    def at(self, temperature: float) -> MemberPolicy:
        """The same policy at another temperature; 0 is greedy."""
        other = copy(self)
        other._temperature = temperature
        return other

    def read(self, view: View, seat: str) -> PromptView:
        """The prompt of ``act``, once a seat has acted."""
        return self._loaded[0].read(view, seat)

    async def specialist(self, seat: str) -> LLMPolicy:  # noqa: ARG002  # it plays all seats
        """The policy itself, once the engine has its weights."""
        if not self._loaded:
            await self._engine.update_weights(self._weights.read_bytes(), 0, policy=self._name)
            if not self._loaded:  # another seat may have been as fast
                self._loaded.append(self._make(self._name))
        player = self._loaded[0]
        return player if self._temperature is None else player.at(self._temperature)

    async def act(self, view: View, seat: str, seed: int) -> Decision:
        """Act as ``seat``; raises EngineError as ``LLMPolicy.act`` does."""
        return await (await self.specialist(seat)).act(view, seat, seed)
