"""Our worlds behind OpenEnv's own checks and client, on a real server."""

import socket
import threading
import time

import pytest

openenv = pytest.importorskip("openenv", reason="OpenEnv has an environment of its own: make adapters")

import uvicorn  # noqa: E402
from openenv import GenericEnvClient  # noqa: E402
from openenv.cli._validation import validate_running_environment  # noqa: E402

from cluster.adapters.openenv.server import Answer, WorldEnvironment, make_app  # noqa: E402
from cluster.adapters.text_game import TextGame, open_world  # noqa: E402

WORLDS = {"diplomacy": {"until_year": 1901}, "word_problems": {}, "kuhn": {}}
START_S = 120


@pytest.fixture(scope="module", params=WORLDS)
def served(request):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = make_app(request.param, WORLDS[request.param])
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + START_S
    while not server.started:
        assert time.monotonic() < deadline, f"the server did not start within {START_S} s"
        time.sleep(0.05)
    yield request.param, f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(START_S)
    assert not thread.is_alive(), f"the server did not stop within {START_S} s"


def test_openenvs_own_validation_passes(served):
    report = validate_running_environment(served[1], timeout_s=60)
    assert report["passed"], report


def play(client, seed, **reset):
    found = client.reset(seed=seed, **reset)
    seen = [found.observation]
    while not found.done:
        found = client.step({"text": "nonsense"})
        seen.append(found.observation)
    return seen


def test_a_whole_game_through_openenvs_client(served):
    _, url = served
    with GenericEnvClient(base_url=url).sync() as client:
        seen = play(client, 3)
        assert [each["messages"] for each in seen] == [each["messages"] for each in play(client, 3)]
        assert seen[-1]["seat"] == ""
        assert seen[-1]["outcomes"]
        assert all(each["messages"][0]["role"] == "system" for each in seen[:-1])
        assert client.state()["role"]


def test_seven_seats_are_asked_one_after_another(served):
    name, url = served
    if name != "diplomacy":
        pytest.skip("one world has seven seats")
    powers = ["AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "RUSSIA", "TURKEY"]
    with GenericEnvClient(base_url=url).sync() as client:
        seen = play(client, 1, role="FRANCE", seats=powers)
    assert [each["seat"] for each in seen[:7]] == powers
    assert {each["phase"] for each in seen[:7]} == {"S1901M"}
    assert set(seen[-1]["rewards"]) == set(powers)
    assert seen[1]["defects"]


def test_the_rewards_of_all_steps_are_those_of_the_role():
    world = open_world("kuhn", {})
    for seed in range(12):
        environment, seats = WorldEnvironment(world), ["SECOND", "THIRD"]
        asked = environment.reset(seed=seed, seats=seats)
        role = environment.state.role
        same, paid = TextGame(world, role, seed, seats=seats), asked.reward
        assert role in seats
        while not asked.done:
            # Each seat plays in its own way.
            text = same.game.view(asked.seat).choices[0 if asked.seat == "SECOND" else -1]
            same.answer(asked.seat, text)
            asked = environment.step(Answer(text=text))
            paid += asked.reward
        assert paid == pytest.approx(same.rewards[role])
        assert same.rewards[role] != 0


def test_a_session_without_requests_ends(monkeypatch):
    monkeypatch.setattr("cluster.adapters.openenv.server.create_fastapi_app", lambda *_, **given: given)
    given = make_app("kuhn", {}, sessions=3)["concurrency_config"]
    assert (given.max_concurrent_envs, given.session_timeout) == (3, 3600.0)
