"""Control tasks: what is paid, when episodes end, and that equal seeds begin alike."""

import numpy as np
import pytest

from services.environments.tensor_task import TaskError
from services.environments.tensor_tasks.catalogue import make_task
from services.environments.tensor_tasks.control.cartpole_family import CARTS, LONGEST
from services.environments.tensor_tasks.control.gymnasium_task import SEAT

NAMES = (
    "cartpole", "lunar_lander", "pong", "breakout", "inverted_pendulum", "half_cheetah", "cartpole_family",
    "navigation",
)  # fmt: skip


def at_rest(task):
    return 0 if task.actions.are_numbered else np.zeros(task.actions.count, np.float32)


@pytest.mark.parametrize("name", NAMES)
def test_equal_seeds_begin_alike_and_go_on_alike(name):
    task = make_task(name)
    courses = []
    for _ in range(2):
        game = task.make()
        game.reset(5)
        course = [game.observation(task.seats[0])]
        for _ in range(3):
            paid = game.step(dict.fromkeys(game.to_act, at_rest(task)))
            assert paid.keys() <= set(task.seats)
            course.append(game.observation(task.seats[0]))
        game.close()
        courses.append(np.stack(course))
    assert courses[0].shape == (4, task.observation_size)
    assert np.array_equal(*courses)


def test_each_cart_pays_its_own_reward_and_counts_by_steps():
    task = make_task("cartpole_family")
    game = task.make()
    for seed, cart in enumerate(CARTS):
        facts = game.reset(seed)
        assert facts == {"variant": cart.name}
        assert game.observation(SEAT)[4:].tolist() == [float(cart == each) for each in CARTS]
        earned = steps = 0
        while game.to_act:
            angle = game.observation(SEAT)[2] + game.observation(SEAT)[3]
            earned += game.step({SEAT: int(angle > 0)})[SEAT]
            steps += 1
        assert 30 < steps <= LONGEST
        assert task.result(earned, facts) == pytest.approx(steps)
        assert game.was_cut_off == (steps == LONGEST)


def test_a_pole_that_falls_ends_an_episode_and_a_limit_cuts_it_off():
    game = make_task("cartpole").make()
    game.reset(0)
    while game.to_act:
        game.step({SEAT: 0})
    assert not game.was_cut_off
    agents = make_task("navigation").make()
    agents.reset(0)
    steps = 0
    while agents.to_act:
        agents.step(dict.fromkeys(agents.to_act, 0))
        steps += 1
    assert (steps, agents.was_cut_off) == (25, True)


@pytest.mark.parametrize("name", ["pong", "half_cheetah"])
def test_nothing_is_printed_and_no_file_is_left(name, capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    game = make_task(name).make()
    game.reset(0)
    game.close()
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_memory_is_seen_with_what_changed_in_it():
    task = make_task("pong")
    game = task.make()
    game.reset(0)
    before = game.observation(SEAT)
    assert before.shape == (task.observation_size,) == (256,)
    assert not before[128:].any()
    for action in (2, 3, 0):
        game.step({SEAT: action})
        now = game.observation(SEAT)
        assert np.allclose(now[128:], np.clip(8 * (now[:128] - before[:128]), -1, 1))
        assert now[128:].any()
        assert np.abs(now).max() <= 1
        before = now


def test_breakout_serves_every_ball_whatever_is_chosen():
    game = make_task("breakout").make()
    for seed in (0, 15, 82, 87):  # the machine loses a first serve with the last three
        game.reset(seed)
        steps = 0
        while game.to_act:
            game.step({SEAT: 0})  # nothing, with which no ball would come into play
            steps += 1
        assert 50 < steps < 1000  # without a ball an episode lasts 27,000 steps
        assert not game.was_cut_off


@pytest.mark.parametrize(("name", "within"), [("cartpole", 6), ("cartpole_family", 6), ("navigation", 3)])
def test_random_play_returns_what_the_scores_take_for_it(name, within):
    task = make_task(name)
    draw, game, results = np.random.default_rng(0), task.make(), []
    for seed in range(100):
        facts = game.reset(seed)
        earned = dict.fromkeys(task.seats, 0.0)
        while game.to_act:
            chosen = {seat: int(draw.integers(task.actions.count)) for seat in game.to_act}
            for seat, reward in game.step(chosen).items():
                earned[seat] += reward
        results.append(task.result(sum(earned.values()) / len(earned), facts))
    assert np.mean(results) == pytest.approx(task.random_return, abs=within)
    assert task.score(float(np.mean(results))) == pytest.approx(0, abs=0.2)


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ale_py", None)
    with pytest.raises(TaskError, match=r"pong .*ale_py.* pip install 'entente\[atari\]'"):
        make_task("pong")
