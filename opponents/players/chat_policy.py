"""A chat model behind an endpoint as a player: conversation -> answer -> orders. It never yields training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from opponents.players.chat_answer import correction, order_lines, sheet_regex
from opponents.players.policy import Decision
from opponents.prompts.chat_messages import messages, messages_of, sections
from opponents.prompts.policy_prompt import PromptView
from opponents.settings import ChatPlayerSettings
from services.environments.diplomacy.orders import OrderSlot, ParsedSheet, parse, sheet
from services.environments.diplomacy.position import Position
from services.inference.chat_endpoint.client import OpenAIClient
from services.inference.chat_endpoint.settings import EndpointError, EndpointRefusedError


class ChatPolicy:
    """Plays any power through an endpoint, without per-game state; servers may ignore the seed."""

    def __init__(self, name: str, settings: ChatPlayerSettings) -> None:
        """Connect at the first use. Raises EndpointRefusedError if the environment variable for the key is not set."""
        self._client = OpenAIClient(f"remote:{name}", settings)
        self._holds = settings.on_failure == "hold"
        self._decisions = self._corrections = self._defects = self._held = 0

    def read(self, position: Position, power: str) -> PromptView:
        """The first messages of ``act``; only the server knows their tokens."""
        parts = sections(position, power, sheet(position, power))
        text = "\n\n".join(f"{message['role']}:\n{message['content']}" for message in messages_of(parts))
        return PromptView(text, {part.name: len(part.text) for part in parts}, "characters")

    async def act(self, position: Position, power: str, seed: int) -> Decision:
        """Request one order sheet; units left without a legal order hold (or disband).

        Raises EndpointRefusedError, or EndpointError if the call failed and ``on_failure`` is ``raise``.
        """
        slots = sheet(position, power)
        self._decisions += 1
        try:
            parsed = await self._orders(position, power, slots, seed)
        except EndpointRefusedError:
            raise  # it would only hold until the end of the game
        except EndpointError:
            if not self._holds:
                raise
            self._held += 1
            return Decision(())
        self._defects += sum(defect.reason != "repaired" for defect in parsed.defects)
        return Decision(parsed.orders)

    def stats(self) -> Mapping[str, float]:
        """Sums since the start: decisions (held, corrected), calls, tokens and cost."""
        return {
            "decisions": self._decisions,
            "corrections": self._corrections,
            "defects": self._defects,
            "held": self._held,
            **asdict(self._client.counters),
            "cost": self._client.cost,
        }

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _orders(self, position: Position, power: str, slots: Sequence[OrderSlot], seed: int) -> ParsedSheet:
        """Request a sheet, and one correction if it leaves anything without an order; returns the better one."""
        conversation, regex = messages(position, power, slots), sheet_regex(slots)
        first = await self._client.complete(conversation, seed=seed, regex=regex)
        parsed = parse(order_lines(first.text), position, power, repair=True)
        wrong = [defect for defect in parsed.defects if defect.reason != "repaired"]
        if not wrong or len(parsed.orders) == len(slots):
            return parsed
        self._corrections += 1
        again = await self._client.complete([*conversation, *correction(first.text, wrong)], seed=seed + 1, regex=regex)
        corrected = parse(order_lines(again.text), position, power, repair=True)
        return corrected if len(corrected.orders) >= len(parsed.orders) else parsed
