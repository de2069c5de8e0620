"""Runs and evaluations with a chat model behind an endpoint: calls, counters, costs and errors."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web

from services.metrics.jsonl import read_metrics
from tests.system.support.training_process import ENTENTE, QUICK, TrainingProcess
from tests.unit.services.inference.chat_endpoint.endpoint_server import (
    FakeEndpoint,
    Request,
    Script,
    answer,
    refusal,
    serving,
)

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

KEY_VARIABLE, KEY = "ENTENTE_TEST_KEY", "sk-not-to-be-written-anywhere"


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
        assert ready.wait(20)
        yield made[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
        loop.close()


def first_legal_orders(request: Request) -> web.Response:
    """The answer of a chat model that always takes the first legal order."""
    prompt = request["messages"][1]["content"]
    lists = re.findall(r"^[AF] \S+: (.+)$", prompt, re.MULTILINE)
    if lists:
        return answer("\n".join(line.split(" | ")[0] for line in lists))
    count = int(re.findall(r"give (\d+) order", prompt)[0])
    return answer("\n".join(prompt.partition("Legal orders:\n")[2].splitlines()[:count]))


def with_remote(endpoint: FakeEndpoint) -> tuple[str, ...]:
    settings = {
        "learner.updates": "1",
        "evaluation.against": "[]",
        "opponents.snapshot_every": "0",
        "opponents.members": '{ "random" = 1.0, "remote:chat" = 1.0 }',
        "opponents.remotes.chat.base_url": endpoint.url,
        "opponents.remotes.chat.model": "some-model",
        "opponents.remotes.chat.api_key_variable": KEY_VARIABLE,
        "opponents.remotes.chat.max_retries": "0",
        "opponents.remotes.chat.price_per_million_prompt_tokens": "2.0",
    }
    return (*QUICK, *(part for name, value in settings.items() for part in ("--set", f"{name}={value}")))


def test_a_chat_opponent_is_drawn_and_its_calls_and_costs_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    run = tmp_path / "run"
    with endpoint_in_a_thread(first_legal_orders) as endpoint:
        with TrainingProcess(run, *with_remote(endpoint)) as training:
            assert training.finish() == 0, training.output()
            assert training.survivors() == []
        assert set(endpoint.keys) == {f"Bearer {KEY}"}
        asked = len(endpoint.requests)
    members = json.loads((run / "population.json").read_text())["members"]
    assert {member["id"] for member in members} == {"bot/random", "remote/chat"}
    (line,) = [line for line in read_metrics(run / "metrics.jsonl") if "entente_loss" in line.metrics]
    calls = line.metrics["entente_remote_calls_total"]
    assert 20 < calls <= asked  # games that began before the update may still be playing
    assert line.metrics["entente_remote_failures_total"] == line.metrics["entente_remote_held_total"] == 0
    assert line.metrics["entente_remote_cost_total"] == pytest.approx(calls * 100 * 2.0 / 1e6)
    written = [file for file in run.rglob("*") if file.is_file()]
    assert not [file for file in written if KEY.encode() in file.read_bytes()]


def test_an_endpoint_that_fails_stops_the_run_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with (
        endpoint_in_a_thread(lambda _: refusal(503, "out of service")) as endpoint,
        TrainingProcess(tmp_path / "run", *with_remote(endpoint)) as training,
    ):
        assert training.finish() == 2, training.output()
        (error,) = [line for line in training.output().splitlines() if line.startswith("error:")]
        assert error.startswith(f"error: remote:chat (some-model at {endpoint.url}): HTTP 503: out of service; ")
        assert "Traceback" not in training.output()
        assert training.survivors() == []


def test_a_chat_player_is_evaluated_and_is_an_opponent_in_evaluations(tmp_path: Path) -> None:
    config, rows = tmp_path / "players.toml", tmp_path / "rows.json"
    with endpoint_in_a_thread(first_legal_orders) as endpoint:
        config.write_text(f'[opponents.remotes.chat]\nbase_url = "{endpoint.url}"\nmodel = "some-model"\n')
        done = subprocess.run(
            [*ENTENTE, "evaluate", "remote:chat", "--against", "hold,remote:chat", "--games-per-country", "1",
             "--until", "1901", "--config", str(config), "--json", str(rows)],
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        asked = len(endpoint.requests)
    written = json.loads(rows.read_text())
    assert [(row["checkpoint"], row["against"]) for row in written["evaluations"]] == [
        ("remote:chat", "hold"),
        ("remote:chat", "remote:chat"),
    ]
    counters = written["remotes"]["chat"]
    assert counters["calls"] == counters["decisions"] == asked
    assert counters["failures"] == counters["defects"] == 0
    assert f"remote:chat: decisions {asked:,}, calls {asked:,}, retries 0, failures 0" in done.stdout
