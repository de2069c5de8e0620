"""Rank 0's side of a learner of several processes, with simulated peers: time limits, broken groups, arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from cluster.actors.learner_group import peers as peers_module
from cluster.actors.learner_group.peers import REASON_S, Peers
from cluster.errors import LateError, LostError
from grpo_core.errors import StorageError


class Answer:
    """A reference to the answer of a peer: when it comes, and what it is."""

    def __init__(self, at: float, value: Any) -> None:
        self.at = at
        self.value = value


class Cluster:
    """Peers whose answers take so many seconds, and the parts of Ray that reach them; the time is simulated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
        self.now = 100.0
        self.put: list[Any] = []
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.values: dict[int, Any] = {}  # answers by rank, or errors
        self.handles = [Peer(self, rank, each) for rank, each in enumerate(seconds, 1)]
        monkeypatch.setattr(peers_module, "time", SimpleNamespace(monotonic=lambda: self.now))
        for name in ("put", "wait", "get"):
            monkeypatch.setattr(ray, name, getattr(self, f"_{name}"))

    def _put(self, value: Any) -> Any:
        self.put.append(value)
        return value

    def _wait(self, refs: Sequence[Answer], num_returns: int, timeout: float) -> tuple[list[Answer], list[Answer]]:
        assert num_returns == 1
        first = min(refs, key=lambda ref: ref.at)
        if first.at > self.now + timeout:
            self.now += timeout
            return [], list(refs)
        self.now = max(self.now, first.at)
        return [first], [ref for ref in refs if ref is not first]

    def _get(self, ref: Answer, timeout: float) -> Any:
        assert ref.at <= self.now + timeout
        if isinstance(ref.value, Exception):
            raise ref.value
        return ref.value


class Peer:
    """The handle of a peer."""

    def __init__(self, cluster: Cluster, rank: int, seconds: float) -> None:
        self._cluster, self._rank, self._seconds = cluster, rank, seconds

    def __getattr__(self, name: str) -> Any:
        return _Method(lambda *arguments: self._call(name, arguments))

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Answer:
        self._cluster.calls.append((name, arguments))
        return Answer(self._cluster.now + self._seconds, self._cluster.values.get(self._rank, self._rank))


class _Method:
    def __init__(self, call: Callable[..., Answer]) -> None:
        self.remote = call


def test_all_peers_share_one_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, 50, 3000, 4000)
    with pytest.raises(LateError, match=r"^process 2 of the learner, process 3 of the learner did not end step within"):
        Peers(cluster.handles, 60.0).answered("step", own=lambda: None)
    assert cluster.now == 160.0


def test_answers_are_sorted_by_rank_whenever_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, 30, 10, 20)
    assert Peers(cluster.handles, 60.0).answered("step", own=lambda: "own") == ("own", [1, 2, 3])
    assert cluster.now == 130.0


def test_a_peer_that_fails_is_not_waited_for_behind_others(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, 1000, 1000, 1)
    cluster.values[3] = StorageError("full")
    with pytest.raises(StorageError, match="full"):
        Peers(cluster.handles, 2000.0).together("step", own=lambda: None)
    assert cluster.now == 101.0


def test_the_reason_of_a_failed_exchange_is_awaited_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_off() -> None:
        raise RuntimeError("gloo: connection closed by peer")

    cluster = Cluster(monkeypatch, *[1000.0] * 7)
    with pytest.raises(LostError, match=r"the learner's processes lost one another: gloo: connection closed"):
        Peers(cluster.handles, 2000.0).together("step", own=cut_off)
    assert cluster.now == 100 + REASON_S


def test_after_a_failed_call_no_other_is_paired_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise StorageError("the disk is full")

    cluster = Cluster(monkeypatch, 1, 1)
    peers = Peers(cluster.handles, 60.0)
    peers.together("gather_policy", own=lambda: None)
    with pytest.raises(StorageError, match="the disk is full"):
        peers.together("gather_checkpoint", own=full)
    called = len(cluster.calls)
    with pytest.raises(LostError, match="no longer work together since gather_checkpoint failed"):
        peers.together("gather_policy", own=lambda: pytest.fail("rank 0 would wait for peers that are elsewhere"))
    assert len(cluster.calls) == called


def test_arguments_are_stored_once_for_several_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = object()
    for seconds, put in (((1.0,), []), ((1.0, 1.0, 1.0), [batch])):
        cluster = Cluster(monkeypatch, *seconds)
        Peers(cluster.handles, 60.0).together("step", batch, own=lambda: None)
        assert cluster.put == put
        assert cluster.calls == [("step", (batch,))] * len(seconds)


def test_alone_an_error_breaks_nothing() -> None:
    peers = Peers()
    with pytest.raises(ZeroDivisionError):
        peers.together("step", own=lambda: 1 // 0)
    assert peers.answered("step", own=lambda: 5) == (5, [])
