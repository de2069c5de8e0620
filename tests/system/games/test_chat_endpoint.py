"""Games with a real OpenAI-compatible server: with structured output, with free text, and when it is killed."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opponents.play import play_game
from opponents.players.chat_players import ChatPlayers
from opponents.settings import ChatPlayerSettings
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.orders import sheet
from services.environments.playing import Decision, Policy
from tests.system.support.openai_server import MODEL, OpenAIServer, openai_server
from tests.system.support.training_process import ENTENTE

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: make vllm"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAIServer]:
    with openai_server(tmp_path_factory.mktemp("endpoint")) as running:
        yield running


class Watched:
    """Passes decisions on and keeps them with their positions and the counters they changed."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy
        self.seen: list[tuple[Position, Decision, dict[str, float]]] = []

    async def act(self, position: Position, power: str, seed: int) -> Decision:
        before = self._policy.stats()
        decision: Decision = await self._policy.act(position, power, seed)
        after = self._policy.stats()
        self.seen.append((position, decision, {name: after[name] - before[name] for name in after}))
        return decision


def play_france(server: OpenAIServer, **settings: Any) -> Watched:
    """France is the endpoint's, to the end of 1901; the six others play at random."""
    player = ChatPlayerSettings(base_url=server.url, model=MODEL, timeout_s=60, **settings)

    async def play() -> Watched:
        players = ChatPlayers({"tiny": player})
        france = Watched(players.policy("tiny"))
        seats: dict[str, Policy] = {power: make_bot("random") for power in POWERS}
        seats["FRANCE"] = france
        try:
            await play_game(DiplomacyGame(1901), seats, 3)
        finally:
            await players.close()
        return france

    return asyncio.run(play())


@pytest.mark.parametrize("structured", ["auto", "on"])
def test_with_structured_output_every_order_is_legal(server: OpenAIServer, structured: str) -> None:
    france = play_france(server, structured=structured)
    assert {"S1901M", "F1901M"} <= {position.phase for position, _, _ in france.seen}
    for position, decision, counted in france.seen:
        slots = sheet(position, "FRANCE")
        if position.kind == "A":  # claims are beyond a regular expression
            assert set(decision.actions) <= set(slots[0].alternatives)
        else:
            assert all(order in slot.alternatives for order, slot in zip(decision.actions, slots, strict=True))
            assert (counted["calls"], counted["defects"], counted["corrections"]) == (1, 0, 0)
        assert counted["prompt_tokens"] > 500
        assert counted["completion_tokens"] > 5 * len(slots)


def test_with_free_text_defects_are_counted_and_the_game_continues(server: OpenAIServer) -> None:
    france = play_france(server, structured="off", max_completion_length=48, temperature=1.0)
    assert len(france.seen) >= 2
    # A random model writes no order, neither at first nor after the correction.
    assert all(counted["calls"] == 2 for _, _, counted in france.seen)
    assert all(counted["corrections"] == 1 for _, _, counted in france.seen)
    assert all(counted["defects"] > 0 for position, _, counted in france.seen if position.kind != "A")


def test_seven_chat_models_play_with_press(server: OpenAIServer, tmp_path: Path) -> None:
    (tmp_path / "players.toml").write_text(
        f'[opponents.remotes.tiny]\nbase_url = "{server.url}"\nmodel = "{MODEL}"\nmax_completion_length = 400\n'
    )
    words = "play --press --default remote:tiny --until 1901 --out game.json --html game.html --config players.toml"
    played = subprocess.run(
        [*ENTENTE, *words.split(), "--show-prompts"], capture_output=True, text=True, cwd=tmp_path, timeout=1500
    )
    assert played.returncode == 0, played.stdout[-2000:] + played.stderr
    (counters,) = [line for line in played.stdout.splitlines() if re.match(r"remote:tiny: .*failures", line)]
    assert "failures 0" in counters
    (calls,) = re.findall(r"calls ([\d,]+\d)", counters)
    assert int(calls.replace(",", "")) >= 7 * 2 * 3  # two rounds of letters and the orders of two movement phases
    document = json.loads((tmp_path / "game.json").read_text())
    orders = [order for phase in document["phases"] for own in (phase["orders"] or {}).values() for order in own or ()]
    assert len(orders) >= 2 * 22  # structured output makes them legal, while letters are free text


def test_the_play_command_uses_a_chat_endpoint_until_the_server_is_killed(server: OpenAIServer, tmp_path: Path) -> None:
    config = tmp_path / "players.toml"
    config.write_text(
        f'[opponents.remotes.tiny]\nbase_url = "{server.url}"\nmodel = "{MODEL}"\ntimeout_s = 20\nmax_retries = 1\n'
        "price_per_million_prompt_tokens = 1000.0\n"
        f'[opponents.remotes.wrong]\nbase_url = "{server.url}"\nmodel = "nobody"\n'
    )

    def play(player: str) -> subprocess.CompletedProcess[str]:
        game = tmp_path / "game.json"
        return subprocess.run(
            [*ENTENTE, "play", "--seat", f"FRANCE=remote:{player}", "--until", "1901", "--out", str(game),
             "--config", str(config)],
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip

    played = play("tiny")
    assert played.returncode == 0, played.stderr
    (counters,) = [line for line in played.stdout.splitlines() if line.startswith("remote:tiny: ")]
    assert "failures 0" in counters
    assert "cost 0.0000" not in counters

    unknown = play("wrong")
    assert unknown.returncode == 2
    assert "remote:wrong (nobody at" in unknown.stderr
    assert "HTTP 404: The model `nobody` does not exist" in unknown.stderr

    assert "; check model and base_url" in unknown.stderr

    server.kill()
    killed = play("tiny")
    assert killed.returncode == 2
    (line,) = killed.stderr.splitlines()
    assert line.startswith(f"error: remote:tiny ({MODEL} at {server.url}): no connection (")
    assert line.endswith("in 2 attempts; is the server up, and base_url right?")
    assert "failures 1" in killed.stdout
