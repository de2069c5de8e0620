"""Rank 0's side of a learner of several processes: call the peers together with its own work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from cluster.actors.learner_group.failures import exchange_failed, of_process
from cluster.errors import LateError, LostError, RunError
from cluster.runtime.ray_calls import FETCH_S, cause_of_death, first_line

Result = TypeVar("Result")
REASON_S = 5.0  # for the peers to tell why an exchange failed


class Peers:
    """The other processes of the learner; without any, rank 0 just does its own work."""

    def __init__(self, handles: Sequence[Any] = (), timeout_s: float = 600.0) -> None:
        """Take the peers' Ray handles, by rank from 1; ``timeout_s`` limits how much later than rank 0 one may be."""
        self._handles = tuple(handles)
        self._timeout_s = timeout_s
        self._broken = ""  # the call under way, or the one that failed

    def __len__(self) -> int:
        """Number of processes besides rank 0."""
        return len(self._handles)

    def wait_ready(self, timeout_s: float) -> list[Mapping[str, str]]:
        """Wait until all have started; return their software's versions, by rank from 1. Raises as ``together``."""
        return self._answers([handle.ready.remote() for handle in self._handles], timeout_s, "starting")

    def together(self, method: str, *arguments: Any, own: Callable[[], Result]) -> Result:
        """Call a method of every peer, do the ``own`` work meanwhile, and return its result.

        Raises LostError if a process has died or an exchange failed, LateError if a peer does not end; what a peer
        raised, if rank 0 failed because of it; otherwise what ``own`` raised. After any of these every call raises
        LostError: a peer may still be in the exchange that rank 0 left, and would take the next one for it.
        """
        result, _ = self.answered(method, *arguments, own=own)
        return result

    def answered(self, method: str, *arguments: Any, own: Callable[[], Result]) -> tuple[Result, list[Any]]:
        """Do ``together`` and also return the peers' results, by rank from 1."""
        if not self._handles:
            return own(), []
        if self._broken:
            raise LostError(f"the learner's processes no longer work together since {self._broken} failed")
        self._broken = method
        refs = self._called(method, arguments)
        try:
            result = own()
        except RuntimeError as error:
            if not exchange_failed(error):
                raise
            raise self._reason(refs, error) from error
        answers = self._answers(refs, self._timeout_s, method)
        self._broken = ""
        return result, answers

    def _called(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        """Call a method of every peer; return the references to their answers, by rank from 1."""
        if len(self._handles) > 1:
            import ray

            arguments = [ray.put(argument) for argument in arguments]  # pickled once, not once for each peer
        return [getattr(handle, method).remote(*arguments) for handle in self._handles]

    def _answers(self, refs: Sequence[Any], timeout_s: float, doing: str) -> list[Any]:
        """Return all answers, by rank from 1; raises the error of the first peer that fails, as soon as it does."""
        answers = {rank: _answer(rank, ref) for rank, ref in _ready(refs, timeout_s)}
        if late := [of_process(rank) for rank in range(1, len(refs) + 1) if rank not in answers]:
            raise LateError(f"{', '.join(late)} did not end {doing} within {timeout_s:g} s")
        return [answers[rank] for rank in sorted(answers)]

    def _reason(self, refs: Sequence[Any], error: Exception) -> Exception:
        """Find why an exchange failed: a peer that died or raised, or else only that it did."""
        lost: Exception = LostError(f"the learner's processes lost one another: {first_line(error)}")
        for rank, ref in _ready(refs, REASON_S):
            try:
                _answer(rank, ref)
            except LostError as death:
                # The peers of a dead process say only that an exchange failed.
                lost = death
                if " died " in str(death):
                    return lost
            except Exception as raised:  # noqa: BLE001  (a peer's own error, which says more than rank 0's)
                return raised
        return lost


def _ready(refs: Sequence[Any], timeout_s: float) -> Iterator[tuple[int, Any]]:
    """Yield rank (from 1) and reference of each answer as they come, until all are there or the time is over."""
    import ray

    ranks = {ref: rank for rank, ref in enumerate(refs, 1)}
    waiting, deadline = list(refs), time.monotonic() + timeout_s
    while waiting:
        ready, waiting = ray.wait(waiting, num_returns=1, timeout=max(0.0, deadline - time.monotonic()))
        if not ready:
            return
        yield ranks[ready[0]], ready[0]


def _answer(rank: int, ref: Any) -> Any:
    """Fetch an answer that is there."""
    import ray
    from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

    try:
        return ray.get(ref, timeout=FETCH_S)
    except GetTimeoutError:
        raise LateError(f"the answer of {of_process(rank)} did not arrive within {FETCH_S:g} s") from None
    except RayActorError as error:
        kind = RunError if getattr(error, "actor_init_failed", False) else LostError
        raise kind(f"{of_process(rank)} {cause_of_death(error)}") from None
    except RayTaskError as error:
        raise error.cause from None
