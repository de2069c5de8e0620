"""Reads answers of Ray actors with a time limit and one-line errors, and ends the connection to Ray."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

from cluster.errors import LateError, LostError, RunError
from cluster.runtime.ray_watch import check_ray
from cluster.runtime.stop_signals import check_stop
from grpo_core.errors import EntenteError, StorageError
from services.replay.buffer import ServerLostError

LOOK_EVERY_S = 0.5  # whether Ray is still there
FETCH_S = 5.0  # for an answer that is there


def cause_of_death(error: Any) -> str:
    """Say briefly why an actor is dead: the error of its constructor, or Ray's reason."""
    lines = _lines(error)
    if getattr(error, "actor_init_failed", False):
        # The last line of the remote traceback is "package.module.SomeError: its message".
        return f"could not start: {lines[-1].partition(': ')[2] or lines[-1]}"
    return f"died ({lines[0]})"


def loss_of(who: str, error: Any) -> EntenteError:
    """Make the error of a run whose actor (``who``) has ended: an accident, unless its constructor raised an error."""
    kind: type[EntenteError] = LostError
    if getattr(error, "actor_init_failed", False):
        raised = _lines(error)[-1].partition(":")[0].rpartition(".")[2]  # Ray passes on only the text of the error
        kinds = {
            ServerLostError.__name__: LateError,
            StorageError.__name__: StorageError,
            LostError.__name__: LostError,  # another process of the learner died meanwhile
            LateError.__name__: LateError,
        }
        kind = kinds.get(raised, RunError)
    return kind(f"{who} {cause_of_death(error)}")


def _lines(error: Any) -> list[str]:
    return [line.strip() for line in str(error).splitlines() if line.strip()] or ["no reason given"]


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the name of its class."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def check_waiting() -> None:
    """Look whether a wait for Ray still makes sense; every loop that waits for Ray calls this.

    Raises KeyboardInterrupt if a signal asked to stop, LostError if Ray is gone.
    """
    check_stop()
    check_ray()


def never_away() -> float:
    """Return that the replay server was away for 0 seconds."""
    return 0.0


def wait_for_all(
    refs: list[Any], timeout_s: float, away_s: Callable[[], float] = never_away
) -> tuple[list[Any], list[Any]]:
    """Wait until all are ready, for up to ``timeout_s``; return those that are and those that are not.

    ``away_s`` returns the seconds so far for which the time limit stood still (``ServerWatch``). Raises as
    ``check_waiting``.
    """
    import ray

    deadline = time.monotonic() + timeout_s - away_s()
    while True:
        left_s = max(0.0, deadline + away_s() - time.monotonic())
        ready, waiting = ray.wait(refs, num_returns=len(refs), timeout=min(left_s, LOOK_EVERY_S))
        if not waiting or not left_s:
            return ready, waiting
        check_waiting()


def get_answer(ref: Any, timeout_s: float, who: str, away_s: Callable[[], float] = never_away) -> Any:
    """Return the result of an actor's method; ``away_s`` as in ``wait_for_all``.

    Raises LateError if there was no answer within ``timeout_s``; LostError if it died, or its answer was lost with the
    machine that held it; ControlServiceLostError if Ray is gone; RunError or StorageError if its constructor raised. An
    error of the method itself is raised unchanged.
    """
    import ray
    from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

    deadline = time.monotonic() + timeout_s
    try:
        ready, _ = wait_for_all([ref], timeout_s, away_s)
        return ray.get(ref, timeout=max(FETCH_S, deadline - time.monotonic()) if ready else 0.0)
    except GetTimeoutError:
        raise LateError(
            f"{who} did not answer within {timeout_s:g} s; look at its log in Ray's session folder"
        ) from None
    except RayActorError as error:
        raise loss_of(who, error) from None
    except RayTaskError as error:
        raise error.cause from None
    except RayError as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise LostError(f"{who} answered, but that was lost ({lines[0]})") from None


def shut_down_ray() -> None:
    """Disconnect from Ray, and end it if this process started it.

    No garbage is collected meanwhile. A collection runs in whichever thread allocates, such as one that answers
    Prometheus; if it frees a reference to one of Ray's objects while Ray shuts down, Ray ends this process with exit
    code 1 and no message.
    """
    import ray

    enabled = gc.isenabled()
    gc.disable()
    try:
        ray.shutdown()
    finally:
        if enabled:
            gc.enable()
