"""Rollout actors that are killed, stopped, slow or refuse weights: real Ray, real processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_AUTH_MODE", "token")

import ray

from cluster.errors import LostError, RunError
from cluster.runtime.ray_calls import shut_down_ray
from tests.system.support.fake_players import Block, Publisher, Weights
from tests.system.support.fake_pool import PoolHarness, gone, owned_by_the_dead

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module", autouse=True)
def local_ray() -> Iterator[None]:
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    yield
    shut_down_ray()


@pytest.mark.parametrize(("how", "cause"), [(signal.SIGKILL, "died"), (signal.SIGSTOP, "timed_out")])
def test_an_actor_lost_during_a_swap_is_replaced(tmp_path: Path, how: signal.Signals, cause: str) -> None:
    with PoolHarness(tmp_path, swap_timeout_s=8.0) as harness:
        first = [Block(f"old/{number}", hang=frozenset({0})) for number in range(2)]
        harness.start(*first)
        harness.wait(
            lambda: harness.has_logged("0 plays old/0") or harness.has_logged("0 plays old/1"), "block on player 0"
        )
        harness.broadcast(Weights(1, hang=frozenset({0})))
        harness.wait(lambda: harness.has_logged("0 swap 1"), "swap of player 0")
        lost = harness.pid(0)
        os.kill(lost, how)
        try:
            harness.start(*(Block(f"new/{number}") for number in range(4)))
            # The other actor plays the remaining blocks, before or after the lost one is replaced.
            harness.wait(lambda: len(harness.blocks) == 6, "all blocks")
            harness.wait(lambda: gone(lost), "end of the lost process")
        finally:
            if not gone(lost):
                os.kill(lost, signal.SIGKILL)
        assert harness.played() == ["new/0", "new/1", "new/2", "new/3", "old/0", "old/1"]
        assert 0 not in {player for _, player in harness.blocks}
        assert harness.pool.restarts == 1
        assert dict(harness.pool.swap_failures) == {cause: 1}
        assert len(harness.notices) == 1
        harness.wait(lambda: harness.has_logged("2 has 1"), "weights at the replacement")
        assert harness.pool.size == 2
        assert harness.pool.games_in_flight == 0


def test_other_actors_play_while_one_is_stuck(tmp_path: Path) -> None:
    with PoolHarness(tmp_path, swap_timeout_s=60.0) as harness:
        harness.broadcast(Weights(1, hang=frozenset({0})))
        harness.start(*(Block(f"b/{number}") for number in range(6)))
        harness.wait(lambda: len(harness.blocks) == 6, "all blocks from the other player")
        assert {player for _, player in harness.blocks} == {1}
        assert harness.pool.restarts == 0


def test_a_slow_start_has_its_own_limit_and_is_no_failed_swap(tmp_path: Path) -> None:
    players = {1: {"loading_s": 3600.0}, 2: {"loading_s": 4.0}}
    with PoolHarness(tmp_path, players=players, actors=1, swap_timeout_s=2.0, start_timeout_s=30.0) as harness:
        os.kill(harness.pid(0), signal.SIGKILL)
        harness.start(Block("b"))  # starting a block reveals the dead actor
        harness.wait(lambda: bool(harness.blocks), "block")
        assert harness.has_logged("2 has 0")
        assert harness.pool.restarts == 2
        assert "died" in harness.notices[0]
        assert "was not ready after 30 s (rollout.start_timeout_s)" in harness.notices[1]
        assert not harness.pool.swap_failures


def test_refused_weights_are_sent_once_more(tmp_path: Path) -> None:
    with PoolHarness(tmp_path, max_replacements=1) as harness:
        harness.broadcast(Weights(1, refuse={0: 1}))
        harness.start(*(Block(f"b/{number}") for number in range(4)))
        harness.wait(
            lambda: harness.has_logged("0 has 1") and len(harness.blocks) == 4, "weights at player 0 and all blocks"
        )
        assert harness.pool.restarts == 0
        assert dict(harness.pool.swap_failures) == {"refused": 1}
        assert "refused weights of version 1: these weights disagree with the learner" in harness.notices[0]
        # An actor that refuses twice is replaced; when its replacement refuses too, the run ends with the reason.
        harness.broadcast(Weights(2, refuse={1: 2}))
        harness.wait(lambda: harness.has_logged("2 has 2"), "weights at the replacement")
        assert harness.pool.restarts == 1
        harness.broadcast(Weights(3, refuse={2: 2}))
        with pytest.raises(RunError, match=r"rollout.max_replacements.*refused weights of version 3: these weights"):
            harness.wait(lambda: False, "end of the run")


def test_weights_whose_owner_died_are_published_again(tmp_path: Path) -> None:
    with PoolHarness(tmp_path, max_replacements=1) as harness:
        harness.republished = [Weights(1)]
        harness.pool.broadcast(owned_by_the_dead(Weights(1)), 1)
        harness.start(*(Block(f"b/{number}") for number in range(4)))
        harness.wait(lambda: len(harness.blocks) == 4, "all blocks, under the weights that were published again")
        assert harness.pool.restarts == 0
        assert set(harness.pool.swap_failures) == {"lost"}
        assert "could not fetch weights of version 1" in harness.notices[0]


def test_weights_of_a_dead_learner_end_the_run(tmp_path: Path) -> None:
    with PoolHarness(tmp_path) as harness:
        publisher = ray.remote(Publisher).options(num_cpus=0.1, max_concurrency=2).remote()
        pid = ray.get(publisher.pid.remote(), timeout=300)
        harness.pool.broadcast(publisher.never.remote(), 1)
        harness.poll()
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(LostError, match=r"the learner died \(The actor died unexpectedly"):
            harness.wait(lambda: False, "end of the run")
        assert harness.pool.restarts == 0


def test_an_evaluation_survives_an_actor_stuck_in_a_swap_and_one_stopped_while_it_plays(tmp_path: Path) -> None:
    with PoolHarness(tmp_path, swap_timeout_s=8.0) as harness:
        harness.broadcast(Weights(1, hang=frozenset({0})))
        finished: list[int] = []
        results = harness.pool.evaluate(list(range(40)), finished.append, 10.0)
        assert results == list(range(40))
        assert sum(finished) == 40
        assert dict(harness.pool.swap_failures) in ({}, {"timed_out": 1})
        harness.wait(lambda: harness.has_logged("2 has 1"), "weights at the replacement")
        stopped = harness.pid(1)
        os.kill(stopped, signal.SIGSTOP)
        try:
            assert harness.pool.evaluate(list(range(40)), finished.append, 10.0) == list(range(40))
            assert harness.pool.restarts == 2
            harness.wait(lambda: gone(stopped), "end of the stopped process")
        finally:
            if not gone(stopped):
                os.kill(stopped, signal.SIGKILL)


def test_an_engine_that_fails_on_a_block_is_replaced_and_its_blocks_are_replayed(tmp_path: Path) -> None:
    with PoolHarness(tmp_path) as harness:
        harness.start(Block("a", hang=frozenset({0})), Block("b", hang=frozenset({1})))
        harness.wait(
            lambda: harness.has_logged("0 plays a") and harness.has_logged("1 plays b"), "a block on each player"
        )
        harness.start(Block("bad", fails=frozenset({0})), Block("other", fails=frozenset({0})))
        harness.wait(lambda: len(harness.blocks) == 3, "all blocks but the one that hangs")
        assert harness.played() == ["a", "bad", "other"]
        assert harness.pool.restarts == 1
        assert "a rollout actor could not play bad: a prompt of 9 tokens leaves no room; it is" in harness.notices[0]


def test_a_block_that_no_engine_can_play_ends_the_run_before_all_replacements_are_used(tmp_path: Path) -> None:
    with PoolHarness(tmp_path, max_replacements=20) as harness:
        harness.start(Block("bad", fails=frozenset(range(30))), Block("good"))
        with pytest.raises(RunError, match="could not play bad: a prompt of 9 tokens leaves no room") as ended:
            harness.wait(lambda: False, "end of the run")
        assert "3 rollout actors, one after another" in str(ended.value)
        assert "\n" not in str(ended.value)
        assert harness.pool.restarts == 2


def test_engines_that_fail_at_an_evaluation_are_replaced_up_to_the_limit_of_replacements(tmp_path: Path) -> None:
    failing = {"fails_evaluations": True}
    with PoolHarness(tmp_path, players={1: failing}, max_replacements=1) as harness:
        assert harness.pool.evaluate(list(range(40)), lambda _: None, 120.0) == list(range(40))
        assert (harness.pool.restarts, harness.pool.replacements_left) == (1, 0)
        harness.poll()
        assert "could not play part" in harness.notices[0]
        os.kill(harness.pid(0), signal.SIGKILL)
        with pytest.raises(RunError, match=r"failed 2 times \(rollout.max_replacements\); the last one died"):
            harness.pool.evaluate(list(range(40)), lambda _: None, 120.0)


def test_a_rest_pauses_games_and_their_time_limits(tmp_path: Path) -> None:
    with PoolHarness(tmp_path, actors=1, block_timeout_s=6.0) as harness:
        harness.start(Block("long", seconds=1.0))
        harness.wait(lambda: harness.has_logged("0 plays long"), "block")
        harness.wait(harness.pool.rest, "rest")
        assert not harness.pool.has_room(1)
        end = time.monotonic() + 7.0
        harness.wait(lambda: time.monotonic() > end, "longer rest than a block may take")
        assert not harness.blocks
        harness.broadcast(Weights(1))
        harness.wait(lambda: bool(harness.blocks) and harness.has_logged("0 has 1"), "block and new weights")
        assert harness.pool.restarts == 0
        asked = [line for line in harness.log.read_text().splitlines() if "pid" not in line]
        assert asked[-5:] == ["0 plays long", "0 sleeps", "0 wakes", "0 swap 1", "0 has 1"]
        harness.start(Block("next"))
        harness.wait(lambda: len(harness.blocks) == 2, "block after the rest")


def test_an_actor_that_refuses_to_sleep_is_ended_and_replaced_after_the_rest(tmp_path: Path) -> None:
    with PoolHarness(tmp_path, actors=1, players={0: {"refuses_sleep": True}}) as harness:
        harness.start(Block("b", hang=frozenset({0})))
        harness.wait(harness.pool.rest, "rest")
        assert harness.pool.size == 0
        assert "could not sleep: this engine cannot sleep" in harness.notices[0]
        harness.poll()
        assert "1 pid" not in harness.log.read_text(), "an engine was started on the learner's GPU"
        harness.broadcast(Weights(1))
        harness.wait(lambda: bool(harness.blocks), "block on the replacement")
        assert harness.pool.size == 1


@pytest.mark.parametrize("engine_ends", [True, False])
def test_a_rest_begins_after_the_processes_of_a_dead_actor_have_ended(tmp_path: Path, engine_ends: bool) -> None:
    limit = 60.0 if engine_ends else 2.0
    with PoolHarness(tmp_path, actors=1, players={0: {"has_engine": True}}, swap_timeout_s=limit) as harness:
        engine = harness.pid(0, "engine")
        try:
            os.kill(harness.pid(0), signal.SIGKILL)
            harness.wait(lambda: harness.pool.rest() or harness.pool.restarts == 1, "news of the death")
            if engine_ends:
                for _ in range(20):
                    assert not harness.pool.rest(), "an engine still holds the GPU"
                    harness.poll()
                assert not gone(engine), "the engine was ended too early"
                os.kill(engine, signal.SIGKILL)
            harness.wait(harness.pool.rest, "rest")
            harness.poll()
            stayed = [notice for notice in harness.notices if "its GPU may not be free" in notice]
            assert bool(stayed) is not engine_ends
            assert all(f"processes [{engine}] have not ended within 2 s (rollout.swap_timeout_s)" in n for n in stayed)
            assert "1 pid" not in harness.log.read_text()
            harness.broadcast(Weights(1))
            harness.wait(lambda: harness.has_logged("1 has 1"), "weights at the replacement")
        finally:
            if not gone(engine):
                os.kill(engine, signal.SIGKILL)


def test_engine_counters_do_not_fall_when_an_actor_is_replaced(tmp_path: Path) -> None:
    with PoolHarness(tmp_path, actors=2) as harness:
        assert harness.pool.stats() == {"decisions": 20.0, "games": 0.0}
        os.kill(harness.pid(0), signal.SIGKILL)
        harness.broadcast(Weights(1))
        harness.wait(lambda: harness.has_logged("2 has 1"), "replacement")
        assert harness.pool.stats() == {"decisions": 30.0, "games": 0.0}
