"""An endpoint in a thread of the test's process, for players in other processes."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from tests.unit.services.inference.chat_endpoint.endpoint_server import FakeEndpoint, Request, Script, answer, serving


@contextmanager
def endpoint_in_a_thread(script: Script) -> Iterator[FakeEndpoint]:
    """Serves other processes while the test waits for them."""
    ready = threading.Event()
    made: list[FakeEndpoint] = []
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def run() -> None:
        async with serving(script) as endpoint:
            made.append(endpoint)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        assert ready.wait(120)
        yield made[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(120)
        loop.close()


def first_legal_orders(request: Request) -> web.Response:
    """The answer of a chat model that always takes the first legal order."""
    prompt = request["messages"][1]["content"]
    lists = re.findall(r"^[AF] \S+: (.+)$", prompt, re.MULTILINE)
    if lists:
        return answer("\n".join(line.split(" | ")[0] for line in lists))
    count = int(re.findall(r"give (\d+) order", prompt)[0])
    return answer("\n".join(prompt.partition("Legal orders:\n")[2].splitlines()[:count]))
