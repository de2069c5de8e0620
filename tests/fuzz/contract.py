"""Kinds of input, and the outcomes that a case may have.

A module of this folder offers one kind as ``KIND``; ``kinds()`` finds it without a list. For example::

    def cases(rng: random.Random) -> Iterator[Case]:
        while True:
            host = rng.choice(HOSTS)
            yield Case(f"host {host!r}", host)

    def run(case: Case, folder: Path, shared: object) -> None:
        load_config("smoke", [f"metrics.host={json.dumps(case.input)}"])

    KIND = Kind("hosts", cases, run)

``run`` calls what users reach: a public function, or the command line by ``command``. It may return, raise an
``EntenteError`` or ``SystemExit``, and print. Everything it prints and every message is held to ``LONGEST_LINE``
printable characters a line. Any other exception is a finding, and so is a case that takes ``HANG_S`` seconds.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pkgutil
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal
from unittest.mock import patch

import tests.fuzz
from grpo_core.errors import EntenteError

LONGEST_LINE = 500  # characters
HANG_S = 120.0  # no case computes for a second; machines are shared

Verdict = Literal["fine", "refused", "traceback", "hang", "line"]


@dataclass(frozen=True, slots=True)
class Case:
    """One input."""

    name: str  # what was changed, and how; any text
    input: Any  # what ``Kind.run`` makes of it


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case; ``fine`` and ``refused`` are allowed."""

    verdict: Verdict
    detail: str  # of a finding: the traceback, or the line
    longest: int  # characters of the longest line that was shown
    seconds: float = 0.0

    @property
    def is_finding(self) -> bool:
        """Whether something is to be mended."""
        return self.verdict not in ("fine", "refused")


@contextmanager
def nothing_shared(folder: Path) -> Iterator[None]:
    """The ``prepare`` of a kind whose cases have nothing in common."""
    yield


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of input.

    ``cases`` yields as many as are wanted, equal ones for equal seeds. ``run`` gets a case, an empty folder for it
    alone, and what ``prepare`` made. ``prepare`` is entered once by each process that runs cases, with a folder of
    its own, e.g. to start a server or to write the files that every case changes.
    """

    name: str
    cases: Callable[[random.Random], Iterator[Case]]
    run: Callable[[Case, Path, Any], object]
    prepare: Callable[[Path], AbstractContextManager[Any]] = nothing_shared
    quick: int = 20  # cases among the unit tests, which take a few seconds in all; 0 where each case is slow


def kinds() -> tuple[Kind, ...]:
    """All kinds, sorted by name."""
    names = [found.name for found in pkgutil.iter_modules(tests.fuzz.__path__)]
    modules = [importlib.import_module(f"tests.fuzz.{name}") for name in names]
    return tuple(sorted((module.KIND for module in modules if hasattr(module, "KIND")), key=lambda kind: kind.name))


def first_cases(kind: Kind, count: int, seed: int) -> list[Case]:
    """The first cases of a kind under a seed; adding kinds or cases does not change them."""
    found = kind.cases(random.Random(f"{seed} {kind.name}"))
    return [case for case, _ in zip(found, range(count), strict=False)]


def command(*arguments: object) -> None:
    """Run ``entente`` with arguments in this process, as its script does; ends with ``SystemExit``."""
    from cluster.cli.app import main

    with patch.object(sys, "argv", ["entente", *map(str, arguments)]):
        main()


def judge(kind: Kind, case: Case, folder: Path, shared: object) -> Outcome:
    """Run one case and say what became of it; main thread only, since an alarm ends a case that hangs."""
    messages: list[str] = []
    started = time.monotonic()
    # As strict as a terminal's: what cannot be encoded is a traceback.
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors) for errors in ("strict", "backslashreplace"))
    past = io.BytesIO()  # what loggers that kept the first standard error, and libraries, write
    try:
        with _descriptor_2(past), _alarm(HANG_S), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            kind.run(case, folder, shared)
        verdict: Verdict = "fine"
    except EntenteError as error:
        verdict, messages = "refused", [str(error)]
    except SystemExit as end:
        verdict = "refused" if end.code else "fine"
    except _HangError:
        return Outcome("hang", traceback.format_exc()[-3000:], 0)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - also the panics of Rust code, which are no Exception
        return Outcome("traceback", traceback.format_exc()[-3000:], 0)
    # A message is one line, so a line break in it is a finding; printed text has many lines.
    out.flush()
    err.flush()
    shown = [stream.buffer.getvalue() for stream in (out, err)]  # type: ignore[attr-defined]
    lines = [line for text in (*shown, past.getvalue()) for line in text.decode("utf-8", "replace").split("\n")]
    lines += messages
    longest = max(map(len, lines))
    wrong = next((line for line in lines if len(line) > LONGEST_LINE or not line.isprintable()), None)
    seconds = time.monotonic() - started
    if wrong is not None:
        return Outcome("line", repr(wrong[:2000]), longest, seconds)
    return Outcome(verdict, "", longest, seconds)


class _HangError(BaseException):
    """A case ran too long; no ``except Exception`` on the way may take it for an error of its own."""


@contextmanager
def _descriptor_2(written: io.BytesIO) -> Iterator[None]:
    """Collect what the process and its children write to descriptor 2."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            written.write(file.read())


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(signum: int, frame: FrameType | None) -> None:
        raise _HangError

    started = time.monotonic()
    before = signal.signal(signal.SIGALRM, ring)
    outer, _ = signal.setitimer(signal.ITIMER_REAL, seconds)  # pytest-timeout's own alarm
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:
            signal.setitimer(signal.ITIMER_REAL, max(outer - (time.monotonic() - started), 0.01))
