"""A chat model behind an endpoint as a player: conversation -> answer -> orders. It never yields training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from opponents.players.chat_answer import correction, order_lines, sheet_regex
from opponents.prompts.policy_prompt import PromptView, messages_of
from opponents.settings import ChatPlayerSettings
from services.environments.language import Language, Section
from services.environments.playing import Answer, Decision, View
from services.inference.chat_endpoint.client import OpenAIClient
from services.inference.chat_endpoint.settings import EndpointError, EndpointRefusedError


class ChatPolicy:
    """Plays any seat through an endpoint, without per-game state; servers may ignore the seed."""

    def __init__(self, name: str, settings: ChatPlayerSettings, language: Language) -> None:
        """Connect at the first use. Raises EndpointRefusedError if the environment variable for the key is not set."""
        self._client = OpenAIClient(f"remote:{name}", settings)
        self._language = language
        self._longest_prompt = settings.longest_prompt
        self._holds = settings.on_failure == "hold"
        self._decisions = self._corrections = self._defects = self._held = 0

    def read(self, view: View, seat: str) -> PromptView:
        """The first messages of ``act``; only the server knows their tokens."""
        parts = self._sections(view, seat)
        text = "\n\n".join(f"{message['role']}:\n{message['content']}" for message in messages_of(parts))
        return PromptView(text, {part.name: len(part.text) for part in parts}, "characters")

    async def act(self, view: View, seat: str, seed: int) -> Decision:
        """Request one answer; what it leaves open, the game decides (units without a legal order hold).

        Raises EndpointRefusedError, or EndpointError if the call failed and ``on_failure`` is ``raise``.
        """
        self._decisions += 1
        try:
            answer = await self._answer(view, seat, seed)
        except EndpointRefusedError:
            raise  # it would only hold until the end of the game
        except EndpointError:
            if not self._holds:
                raise
            self._held += 1
            return Decision(())
        self._defects += sum(defect.reason != "repaired" for defect in answer.defects)
        return Decision(answer.actions, defects=answer.defects)

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

    def _sections(self, view: View, seat: str) -> Sequence[Section]:
        """The parts of a prompt, cut as ``Language.cuts`` says until it has at most ``longest_prompt`` characters."""
        cuts = len(self._language.cuts)
        for cut in range(cuts + 1):
            parts = self._language.sections(view, seat, cut=cut)
            if cut == cuts or sum(len(part.text) for part in parts) <= self._longest_prompt:
                return parts
        raise AssertionError("the last cut is always taken")

    async def _answer(self, view: View, seat: str, seed: int) -> Answer:
        """Request an answer, and one correction if it leaves a slot empty; returns the better one."""
        slots = self._language.slots(view, seat)
        conversation = messages_of(self._sections(view, seat))
        if slots is None or self._language.is_free(view, seat):
            return self._language.parse((await self._client.complete(conversation, seed=seed)).text, view, seat)
        regex = sheet_regex(slots)
        first = await self._client.complete(conversation, seed=seed, regex=regex)
        answer = self._language.parse(order_lines(first.text), view, seat)
        wrong = [defect for defect in answer.defects if defect.reason != "repaired"]
        if not wrong or len(answer.actions) == len(slots):
            return answer
        self._corrections += 1
        again = await self._client.complete([*conversation, *correction(first.text, wrong)], seed=seed + 1, regex=regex)
        corrected = self._language.parse(order_lines(again.text), view, seat)
        return corrected if len(corrected.actions) >= len(answer.actions) else answer
