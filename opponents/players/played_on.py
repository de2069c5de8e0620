"""A player that makes the first decisions of one game, and leaves the rest to a bot."""

from __future__ import annotations

from services.environments.playing import Bot, Decision, Policy, View


class PlayedOn:
    """``policy`` for the first ``decisions`` of a game, then ``bot``: made anew for each game, as it counts them."""

    def __init__(self, policy: Policy, decisions: int, bot: Bot) -> None:
        """Raises ValueError if there is nothing left for the policy."""
        if decisions < 1:
            raise ValueError(f"a playout begins after at least one decision, not {decisions}")
        self._policy = policy
        self._left = decisions
        self._bot = bot

    async def act(self, view: View, seat: str, seed: int) -> Decision:
        """The policy's decision as long as it has any left; the bot's have no turn, so that nothing learns from them."""
        if self._left == 0:
            return await self._bot.act(view, seat, seed)
        self._left -= 1
        return await self._policy.act(view, seat, seed)
