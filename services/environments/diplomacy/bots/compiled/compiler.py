"""How the functions of this folder become machine code."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import ParamSpec, TypeVar

import numba  # type: ignore[import-untyped]  # it has no types

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_SOURCES = Path(__file__).resolve().parents[2]


def compiled(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile ``function`` at its first call, and keep the code on disk for the next process.

    Products and sums are not joined (``fastmath`` is off), so that all instruction sets give the same results.
    """
    before = numba.config.CACHE_DIR
    folder = _folder()
    try:
        numba.config.CACHE_DIR = str(folder or before)
        made: Callable[Arguments, Result] = numba.njit(cache=folder is not None)(function)
    finally:
        numba.config.CACHE_DIR = before
    return made


@cache
def _folder() -> Path | None:
    """A folder for the machine code of exactly these sources; None where none can be written.

    The compiler knows a function's code by its own file, and would go on with old code of functions that it calls.
    """
    sources = hashlib.sha256()
    for file in sorted(_SOURCES.rglob("*.py")):
        sources.update(file.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(home, "entente", "compiled", sources.hexdigest()[:16])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None
