"""A process with the environment of a rollout actor, which is where an engine lives."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import psutil

from cluster.runtime.actor_env import actor_variables, started_with

Host = TypeVar("Host")
P = ParamSpec("P")
R = TypeVar("R")

CALL_TIMEOUT_S = 300.0
_END_TIMEOUT_S = 15.0


class ActorProcess(Generic[Host]):
    """An object in another process, whose methods are called one after another."""

    def __init__(self, name: str, connection: Connection, process: Any) -> None:
        self._name = name
        self._connection = connection
        self._process = process

    def call(self, method: Callable[Concatenate[Host, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of a method, given as ``Class.method``.

        Raises:
            RuntimeError: it raised, gave nothing in time, or the process is gone; says which.
        """
        try:
            self._connection.send((method, args, kwargs))
        except OSError:
            raise self._death(method.__name__) from None
        answer: R = self.answer(method.__name__)
        return answer

    def answer(self, what: str) -> Any:
        """The next answer; the first one, ``None``, says that the object was made."""
        try:
            if not self._connection.poll(CALL_TIMEOUT_S):
                raise RuntimeError(
                    f"{what} gave nothing within {CALL_TIMEOUT_S:.0f} s in the benchmark's process {self._name!r}; is "
                    "the machine overloaded?"
                )
            failure, result = self._connection.recv()
        except (EOFError, ConnectionResetError):
            raise self._death(what) from None
        if failure is not None:
            raise RuntimeError(f"{what} failed in the benchmark's process {self._name!r}: {failure}")
        return result

    def end(self) -> None:
        """Let the process go; it and what it started is killed where it does not."""
        family: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._process.pid)
            family = [*process.children(recursive=True), process]
        with suppress(OSError):
            self._connection.send(None)
        self._process.join(_END_TIMEOUT_S)
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        self._process.join(_END_TIMEOUT_S)
        self._connection.close()

    def _death(self, what: str) -> RuntimeError:
        return RuntimeError(
            f"the benchmark's process {self._name!r} died in {what}; its output above says why (out of memory?)"
        )


@contextmanager
def actor_process(
    name: str, make: Callable[P, Host], *args: P.args, **kwargs: P.kwargs
) -> Iterator[ActorProcess[Host]]:
    """An object made in a fresh interpreter with one thread, under a rollout actor's variables; ends with the block.

    Args:
        name: for messages.
        make: makes the object there; a class, or a function of a module. What is made may have a ``close``.
        args: what it takes; they and all answers travel pickled.
        kwargs: likewise.

    Raises:
        RuntimeError: it could not be made.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, make, args, kwargs), name=name)
    with started_with(actor_variables(1)):
        process.start()
    theirs.close()
    actor: ActorProcess[Host] = ActorProcess(name, ours, process)
    try:
        actor.answer("start")
        yield actor
    finally:
        actor.end()


def _serve(connection: Connection, make: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Answer until told to end, or until whoever asks is gone."""
    host: Any = None

    def create() -> None:
        nonlocal host
        host = make(*args, **kwargs)

    with suppress(EOFError, OSError, KeyboardInterrupt):
        connection.send(_outcome(create))
        while host is not None and (asked := connection.recv()) is not None:
            method, arguments, options = asked
            connection.send(_outcome(method, host, *arguments, **options))
    if hasattr(host, "close"):
        host.close()


def _outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[str | None, Any]:
    """What failed, and what came of it."""
    try:
        return None, function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001  (whatever it is, it belongs to whoever asked)
        traceback.print_exc()
        return f"{type(error).__name__}: {error}", None
