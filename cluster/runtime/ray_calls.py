"""Reads answers of Ray actors with a time limit and one-line errors."""

from __future__ import annotations

from typing import Any

from cluster.errors import LateError, LostError, RunError
from services.replay.buffer import ServerLostError


def cause_of_death(error: Any) -> str:
    """Say briefly why an actor is dead: the error of its constructor, or Ray's reason."""
    lines = _lines(error)
    if getattr(error, "actor_init_failed", False):
        # The last line of the remote traceback is "package.module.SomeError: its message".
        return f"could not start: {lines[-1].partition(': ')[2] or lines[-1]}"
    return f"died ({lines[0]})"


def loss_of(who: str, error: Any) -> RunError:
    """Make the error of a run whose actor (``who``) has ended: an accident, unless its constructor raised an error."""
    kind: type[RunError] = LostError
    if getattr(error, "actor_init_failed", False):
        raised = _lines(error)[-1].partition(":")[0].rpartition(".")[2]  # Ray passes on only the text of the error
        kind = LateError if raised == ServerLostError.__name__ else RunError
    return kind(f"{who} {cause_of_death(error)}")


def _lines(error: Any) -> list[str]:
    return [line.strip() for line in str(error).splitlines() if line.strip()] or ["no reason given"]


def get_answer(ref: Any, timeout_s: float, who: str) -> Any:
    """Return the result of an actor's method.

    Raises LateError if there was no answer within ``timeout_s``; LostError if it died, or its answer was lost with the
    machine that held it; RunError if its constructor raised. An error of the method itself is raised unchanged.
    """
    import ray
    from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

    try:
        return ray.get(ref, timeout=timeout_s)
    except GetTimeoutError:
        raise LateError(
            f"{who} did not answer within {timeout_s:.0f} s; look at its log in Ray's session folder"
        ) from None
    except RayActorError as error:
        raise loss_of(who, error) from None
    except RayTaskError as error:
        raise error.cause from None
    except RayError as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise LostError(f"{who} answered, but that was lost ({lines[0]})") from None
