"""A policy whose order sheets simulated games compare, with one another and with those of bots."""

from __future__ import annotations

import asyncio
from copy import copy
from typing import Any

from grpo_core.seeds import derive_seed
from services.environments.diplomacy.bots.lookahead.lookahead import LookaheadBot
from services.environments.diplomacy.position import Position
from services.environments.diplomacy.press.view import writes_press
from services.environments.diplomacy.rules.draw_votes import DRAW, split_votes
from services.environments.language import Language
from services.environments.playing import Decision, Policy, PromptedPolicy

SAMPLES = 8  # order sheets of the policy at each decision


class LookaheadPolicy:
    """Plays any seat by the best of a policy's sheets, bots' sheets and changes of both; keeps no state of a game."""

    is_slow = True

    def __init__(
        self, policy: PromptedPolicy, language: Language, bot: LookaheadBot | None = None, samples: int = SAMPLES
    ) -> None:
        """``bot`` compares ``samples`` sheets of ``policy``, which are completed as ``language`` says."""
        self.policy = policy
        self._language = language
        self._bot = bot or LookaheadBot()
        self._samples = samples
        self._is_greedy = False

    def at(self, temperature: float) -> LookaheadPolicy:
        """The same player with sheets that the policy samples at another temperature; 0 is greedy: one sheet."""
        other = copy(self)
        other._is_greedy = temperature == 0
        other.policy = self.policy.at(temperature)
        return other

    def read(self, view: Position, seat: str) -> Any:
        """The prompt of the policy."""
        return self.policy.read(view, seat)

    async def specialist(self, seat: str) -> Policy:
        """The policy for ``seat``, whose probabilities can be asked for."""
        find = getattr(self.policy, "specialist", None)
        found: Policy = self.policy if find is None else await find(seat)
        return found

    async def act(self, view: Position, seat: str, seed: int) -> Decision:
        """The sheet with most centres after the simulated games; a vote for a draw where most samples have one.

        Raises as the policy.
        """
        if writes_press(view):
            return await self.policy.act(view, seat, seed)
        if not view.orderable.get(seat):
            return Decision(())
        decisions = await asyncio.gather(
            *(
                self.policy.act(view, seat, derive_seed(seed, "sample", number))
                for number in range(1 if self._is_greedy else self._samples)
            )
        )
        read = [split_votes(self._language.written(each.actions, view, seat)) for each in decisions]
        proposed = [tuple(orders) for orders, _ in read]
        chosen = self._bot.choose(view, seat, derive_seed(seed, "simulated games"), proposed=proposed).actions
        for_draw = sum(wanted for _, wanted in read)
        return Decision((*chosen, DRAW) if 2 * for_draw > len(read) else chosen)
