"""Waits for Ray's actors: their time limits stand still while the replay server is away."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import ray

from cluster.errors import LateError
from cluster.runtime.ray_calls import get_answer, wait_for_all


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits of a Ray whose actors never answer; time passes in them alone."""
    waited: list[float] = []

    def wait(refs: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        waited.append(timeout)
        return [], refs

    monkeypatch.setattr(ray, "wait", wait)
    monkeypatch.setattr("cluster.runtime.ray_calls.time.monotonic", lambda: sum(waited))
    return waited


def test_a_wait_ends_at_its_time_limit(looks: list[float]) -> None:
    assert wait_for_all(["a", "b"], 3.2) == ([], ["a", "b"])
    assert sum(looks) == pytest.approx(3.2)


def test_a_time_limit_stands_still_while_the_replay_server_is_away(looks: list[float]) -> None:
    away = itertools.chain([5.0], (5.0 + min(100.0, seconds) for seconds in itertools.count()))
    assert wait_for_all(["a"], 3.0, lambda: next(away)) == ([], ["a"])
    assert sum(looks) == pytest.approx(103.0)


def test_an_actor_that_does_not_answer_is_late(looks: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    def get(ref: Any, timeout: float) -> Any:
        assert timeout == 0.0
        raise ray.exceptions.GetTimeoutError

    monkeypatch.setattr(ray, "get", get)
    with pytest.raises(LateError, match="the learner, starting, did not answer within 2 s"):
        get_answer("a", 2.0, "the learner, starting,")
