"""Runs and evaluations with a chat model behind an endpoint: calls, counters, costs and errors."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path

import pytest
from aiohttp import web

from services.metrics.jsonl import read_metrics
from tests.system.support.endpoint_thread import endpoint_in_a_thread, first_legal_orders
from tests.system.support.training_process import ENTENTE, QUICK, TrainingProcess
from tests.unit.services.inference.chat_endpoint.endpoint_server import (
    FakeEndpoint,
    refusal,
)

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

HOSTILE_BODIES = (b'{"choices": [{}]}', b"", b'{"choices": [{"message": null}]}', b"[" * 100_000)
KEY_VARIABLE, KEY = "ENTENTE_TEST_KEY", "sk-not-to-be-written-anywhere"


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
        endpoint_in_a_thread(lambda _: refusal(503, "out of \x1b[2J\x1b]0;title\x07service\n")) as endpoint,
        TrainingProcess(tmp_path / "run", *with_remote(endpoint)) as training,
    ):
        assert training.finish() == 2, training.output()
        (error,) = [line for line in training.output().splitlines() if line.startswith("error:")]
        assert error.startswith(f"error: remote:chat (some-model at {endpoint.url}): HTTP 503: out of service; ")
        assert error.isprintable()
        assert "Traceback" not in training.output()
        assert training.survivors() == []


@pytest.mark.parametrize("on_failure", ["raise", "hold"])
def test_a_game_with_answers_that_are_no_chat_completion_stops_with_one_line_or_is_held(
    tmp_path: Path, on_failure: str
) -> None:
    config, bodies = tmp_path / "players.toml", itertools.cycle(HOSTILE_BODIES)
    with endpoint_in_a_thread(lambda _: web.Response(body=next(bodies), content_type="application/json")) as endpoint:
        config.write_text(
            f'[opponents.remotes.chat]\nbase_url = "{endpoint.url}"\nmodel = "some-model"\n'
            f'max_retries = 0\non_failure = "{on_failure}"\n'
        )
        done = subprocess.run(
            [*ENTENTE, "play", "--seat", "FRANCE=remote:chat", "--until", "1902", "--config", str(config),
             "--out", str(tmp_path / "game.json")],
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        asked = len(endpoint.requests)
    (counters,) = [line for line in done.stdout.splitlines() if line.startswith("remote:chat: ")]
    assert "\x1b" not in done.stdout
    if on_failure == "hold":
        assert done.returncode == 0, done.stderr
        assert asked >= len(HOSTILE_BODIES)
        assert (
            f"decisions {asked}, calls 0, retries 0, failures {asked}, corrections 0, defects 0, held {asked};"
            in counters
        )
    else:
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"error: remote:chat (some-model at {endpoint.url}): its answer is no chat completion (")
        assert line.isprintable()
        assert "failures 1" in counters


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
