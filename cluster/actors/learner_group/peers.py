"""Rank 0's side of a learner of several processes: call the peers together with its own work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from cluster.actors.learner_group.failures import exchange_failed, of_process
from cluster.errors import LateError, LostError, RunError
from cluster.runtime.ray_calls import cause_of_death, first_line

Result = TypeVar("Result")
REASON_S = 5.0  # for the peers to tell why an exchange failed


class Peers:
    """The other processes of the learner; without any, rank 0 just does its own work."""

    def __init__(self, handles: Sequence[Any] = (), timeout_s: float = 600.0) -> None:
        """Take the peers' Ray handles, by rank from 1; ``timeout_s`` limits how much later than rank 0 one may be."""
        self._handles = tuple(handles)
        self._timeout_s = timeout_s

    def __len__(self) -> int:
        """Number of processes besides rank 0."""
        return len(self._handles)

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until all have started. Raises as ``together``."""
        self._answers([handle.ready.remote() for handle in self._handles], timeout_s, "starting")

    def together(self, method: str, *arguments: Any, own: Callable[[], Result]) -> Result:
        """Call a method of every peer, do the ``own`` work meanwhile, and return its result.

        Raises LostError if a process has died or an exchange failed, LateError if a peer does not end; what a peer
        raised, if rank 0 failed because of it; otherwise what ``own`` raised.
        """
        result, _ = self.answered(method, *arguments, own=own)
        return result

    def answered(self, method: str, *arguments: Any, own: Callable[[], Result]) -> tuple[Result, list[Any]]:
        """Do ``together`` and also return the peers' results, by rank from 1."""
        refs = [getattr(handle, method).remote(*arguments) for handle in self._handles]
        try:
            result = own()
        except RuntimeError as error:
            if not refs or not exchange_failed(error):
                raise
            raise self._reason(refs, error) from error
        return result, self._answers(refs, self._timeout_s, method)

    def _answers(self, refs: Sequence[Any], timeout_s: float, doing: str) -> list[Any]:
        return [_answer(rank, ref, timeout_s, doing) for rank, ref in enumerate(refs, 1)]

    def _reason(self, refs: Sequence[Any], error: Exception) -> Exception:
        """Find why an exchange failed: a peer that died or raised, or else only that it did."""
        lost: Exception = LostError(f"the learner's processes lost one another: {first_line(error)}")
        for rank, ref in enumerate(refs, 1):
            try:
                _answer(rank, ref, REASON_S, "an exchange")
            except LateError:
                continue
            except LostError as death:
                # The peers of a dead process say only that an exchange failed.
                lost = death
                if " died " in str(death):
                    return lost
            except Exception as raised:  # noqa: BLE001  (a peer's own error, which says more than rank 0's)
                return raised
        return lost


def _answer(rank: int, ref: Any, timeout_s: float, doing: str) -> Any:
    import ray
    from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

    try:
        return ray.get(ref, timeout=timeout_s)
    except GetTimeoutError:
        raise LateError(f"{of_process(rank)} did not end {doing} within {timeout_s:g} s") from None
    except RayActorError as error:
        kind = RunError if getattr(error, "actor_init_failed", False) else LostError
        raise kind(f"{of_process(rank)} {cause_of_death(error)}") from None
    except RayTaskError as error:
        raise error.cause from None
