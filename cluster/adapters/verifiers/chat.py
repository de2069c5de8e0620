"""Asks a model in this process: one request a turn, with exactly the messages of that turn.

A prompt of our worlds says all that its answer needs, so earlier prompts are not sent again.
"""

from __future__ import annotations

from typing import Any

import httpx
import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire

ANSWER_TIMEOUT_S = 600.0


class ChatConfig(vf.HarnessConfig):  # type: ignore[misc]  # verifiers is not installed where types are checked
    """How models are asked."""

    answer_timeout_s: float = ANSWER_TIMEOUT_S
    """Seconds that an answer may take."""


class ChatHarness(vf.Harness[ChatConfig]):  # type: ignore[misc]
    """No program, no tools, no code: every model call goes through the endpoint that records it."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,  # noqa: ARG002
        runtime: Any,  # noqa: ARG002
        endpoint: str,
        secret: str,
        mcp_urls: Any,  # noqa: ARG002
        data: Any,
    ) -> Any:
        """Ask once, with the task's prompt."""
        system, prompt = self.resolve_prompt(data)
        messages = [vf.UserMessage(content=prompt)] if isinstance(prompt, str) else list(prompt or [])
        if system:
            messages.insert(0, vf.SystemMessage(content=system))
        return await self._ask(ctx.model, endpoint, secret, messages)

    async def resume(
        self,
        ctx: Any,
        trace: Any,  # noqa: ARG002
        runtime: Any,  # noqa: ARG002
        endpoint: str,
        secret: str,
        mcp_urls: Any,  # noqa: ARG002
        data: Any,  # noqa: ARG002
        messages: Any,
        tool_interception_url: str | None = None,  # noqa: ARG002
    ) -> Any:
        """Ask once, with these messages alone."""
        return await self._ask(ctx.model, endpoint, secret, messages)

    async def _ask(self, model: str, endpoint: str, secret: str, messages: Any) -> Any:
        body = {"model": model, "messages": [message_to_wire(message) for message in messages]}
        try:
            async with httpx.AsyncClient(timeout=self.config.answer_timeout_s) as client:
                answer = await client.post(
                    f"{endpoint}/chat/completions", json=body, headers={"Authorization": f"Bearer {secret}"}
                )
        except httpx.TimeoutException:
            message = f"no answer of {model} within {self.config.answer_timeout_s:g} s; is its endpoint overloaded?"
            return vf.ProgramResult(exit_code=1, stdout="", stderr=message)
        failed = answer.is_error
        return vf.ProgramResult(exit_code=int(failed), stdout="", stderr=answer.text[-500:] if failed else "")
