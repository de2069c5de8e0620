"""Our worlds through verifiers' own loading, validation and evaluation, with a chat endpoint on this machine."""

import asyncio
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

pytest.importorskip("verifiers", reason="verifiers has an environment of its own: make adapters")

import verifiers.v1 as vf

PATIENCE_S = 600


class Endpoint(BaseHTTPRequestHandler):
    """Answers every chat with the same text, or with an error after ``most`` of them, and keeps what it was asked."""

    asked: ClassVar[list] = []
    most: ClassVar[int | None] = None

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        if self.most is not None and len(self.asked) > self.most:
            self.send_error(400)
            return
        message = {"role": "assistant", "content": "<think>no</think><response>1</response>"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        made = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"]}
        answer = json.dumps({**made, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@pytest.fixture
def endpoint():
    Endpoint.asked, Endpoint.most = [], None
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


def episode_of(config, endpoint):
    environment = vf.load_environment(vf.resolve_env_config(config))
    client = vf.EvalClientConfig(base_url=endpoint, api_key_var="ENTENTE_TEST_KEY")
    context = vf.ModelContext(model="tester", client=client, sampling=vf.SamplingConfig())

    async def run():
        async with environment.serving():
            return await environment.run_episode(next(iter(environment.taskset)), context)

    return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def test_seven_seats_play_a_game(endpoint):
    config = {"taskset": {"id": "entente-diplomacy", "game": {"until_year": 1901}}}
    episode = episode_of(config, endpoint)
    assert episode.ok, episode.errors
    assert {trace.agent.name for trace in episode.traces} == {
        "austria", "england", "france", "germany", "italy", "russia", "turkey",
    }  # fmt: skip
    assert all({"game"} == set(trace.rewards) and trace.metrics["defects"] > 0 for trace in episode.traces)
    assert all(len([each for each in body["messages"] if each["role"] == "user"]) == 1 for body in Endpoint.asked)


def test_one_seat_plays_among_bots(endpoint):
    taskset = {"id": "entente-diplomacy", "game": {"until_year": 1901, "press_rounds": 1}, "played": "one"}
    episode = episode_of({"taskset": taskset}, endpoint)
    assert episode.ok, episode.errors
    [trace] = episode.traces
    assert trace.agent.name == "austria"
    assert "letters" in trace.metrics
    assert not any("/" in name for name in trace.metrics)


def test_a_game_whose_endpoint_fails_is_abandoned(endpoint):
    Endpoint.most = 9
    episode = episode_of({"taskset": {"id": "entente-diplomacy", "game": {"until_year": 1901}}}, endpoint)
    assert not episode.ok
    assert "the run of" in episode.errors[0].message
    assert not any(trace.rewards for trace in episode.traces), "a failed seat is no seat that gave up"


def test_a_seat_that_reaches_its_limit_writes_nothing_from_then_on(endpoint):
    config = {"taskset": {"id": "entente-diplomacy", "game": {"until_year": 1901}}, "france": {"max_turns": 1}}
    episode = episode_of(config, endpoint)
    assert episode.ok, episode.errors
    assert all({"game"} == set(trace.rewards) for trace in episode.traces)


@pytest.mark.parametrize("name", ["entente-diplomacy", "entente-word-problems"])
def test_training_and_evaluation_can_have_other_seeds(name):
    config = vf.resolve_env_config({"taskset": {"id": name, "first_seed": 1000}})
    tasks = iter(vf.load_environment(config).taskset)
    assert [next(tasks).data.seed for _ in range(2)] == [1000, 1001]


def test_a_word_problem_is_asked_and_scored(endpoint):
    config = {"taskset": {"id": "entente-word-problems"}, "agent": {"runtime": {"type": "subprocess"}}}
    episode = episode_of(config, endpoint)
    assert episode.ok, episode.errors
    (trace,) = episode.traces
    assert "exact_match" in trace.metrics
    assert Endpoint.asked[0]["messages"][0]["role"] == "system"


def test_verifiers_own_validation_finds_the_worked_solutions_right(tmp_path):
    program = "from verifiers.v1.cli.validate import main; main()"
    options = ["--runtime.type", "subprocess", "-n", "4", "--run.name", "check", "-o", str(tmp_path)]
    command = [sys.executable, "-c", program, "entente-word-problems", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "check" / "summary.json").read_text())
    assert summary["outcomes"]["valid"] == 4, summary
