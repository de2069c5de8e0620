"""Let a chat model behind an OpenAI-compatible endpoint play, here France against six bots.

    python tests/examples/remote_player.py --out game.html

The endpoint is a small server in this program, which answers each request with random legal orders, so the example
needs no key and no network. For a real model give its URL, its name and the environment variable with its key:

    {"base_url": "https://HOST/v1", "model": "NAME", "api_key_variable": "MY_KEY"}
"""

from __future__ import annotations

import argparse
import json
import random
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import entente


class Endpoint(BaseHTTPRequestHandler):
    """Answers ``POST /v1/chat/completions`` as a chat model would."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Read the conversation and answer with an order sheet."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = choose_orders(request["messages"][1]["content"], random.Random(request.get("seed")))
        body = json.dumps(
            {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": request["model"],
                "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer}}],
                "usage": {"prompt_tokens": 500, "completion_tokens": 50, "total_tokens": 550},
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing for each request."""


def choose_orders(question: str, chance: random.Random) -> str:
    """One legal order for each unit; the question lists them as ``A PAR: A PAR H | A PAR - BUR | ...``."""
    units = re.findall(r"^[AF] \S+: (.+)$", question, re.MULTILINE)
    if units:
        return "\n".join(chance.choice(orders.split(" | ")) for orders in units)
    number = int(re.findall(r"give (\d+) order", question)[0])  # builds or disbands: one list for all of them
    orders = question.partition("Legal orders:\n")[2].splitlines()
    return "\n".join(chance.sample(orders, min(number, len(orders))))


@contextmanager
def endpoint() -> Iterator[str]:
    """Serve on this machine alone, and yield the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main(arguments: Sequence[str] | None = None) -> None:
    """Play one game and show how it went."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("game.html"), help="page that shows the game")
    parser.add_argument("--until", type=int, default=1904, help="last year of the game")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change a config key")
    options = parser.parse_args(arguments)

    with endpoint() as url:
        # The same table in a TOML file is [opponents.remotes.friend]; the player's name is then remote:friend.
        config = entente.load_config({"opponents": {"remotes": {"friend": {"base_url": url, "model": "any"}}}})
        config = entente.load_config(config, options.set)
        with entente.open_player("remote:friend", config=config) as friend:
            game = entente.play({"FRANCE": friend}, default="dumbbot", until_year=options.until)
            costs = friend.costs

    print(game)
    print(f"{costs['decisions']:.0f} decisions in {costs['calls']:.0f} calls, {costs['defects']:.0f} defective orders")
    print(f"phase by phase: {game.html(options.out)}")


if __name__ == "__main__":
    main()
