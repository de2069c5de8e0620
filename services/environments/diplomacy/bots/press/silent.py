"""Players that write no letters: bots that know of none, and policies whose letters are withheld."""

from __future__ import annotations

from copy import copy
from typing import Any

from services.environments.diplomacy.position import Position
from services.environments.diplomacy.press.letters import NOTES
from services.environments.diplomacy.press.view import writes_press
from services.environments.playing import Bot, Decision, Policy, PromptedPolicy, SamplingPolicy


class SilentBot(Bot):
    """Gives another bot's orders; it writes no letters, and reads none."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot
        self.is_slow = bot.is_slow

    def actions(self, position: Position, power: str, seed: int) -> tuple[str, ...]:
        """The other bot's orders; () where letters are due."""
        return () if writes_press(position) else self._bot.actions(position, power, seed)


class MutedPolicy:
    """Plays as another policy, whose letters are withheld; what it writes to itself is kept."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.is_slow = getattr(policy, "is_slow", False)

    def at(self, temperature: float) -> MutedPolicy:
        """The same player at another temperature, if the other policy has one; 0 is greedy."""
        other = copy(self)
        if isinstance(self.policy, SamplingPolicy):
            other.policy = self.policy.at(temperature)
        return other

    def read(self, view: Position, seat: str) -> Any:
        """The prompt of the policy. Raises TypeError if it has none."""
        if not isinstance(self.policy, PromptedPolicy):
            raise TypeError(f"{self.policy} is asked without a prompt")
        return self.policy.read(view, seat)

    async def specialist(self, seat: str) -> Policy:
        """The policy for ``seat``, whose probabilities can be asked for."""
        find = getattr(self.policy, "specialist", None)
        found: Policy = self.policy if find is None else await find(seat)
        return found

    async def act(self, view: Position, seat: str, seed: int) -> Decision:
        """Its orders, or its notes where letters are due. Raises as the policy."""
        decision = await self.policy.act(view, seat, seed)
        if not writes_press(view):
            return decision
        return Decision(tuple(line for line in decision.actions if line.startswith(f"{NOTES} ")))
