"""Worlds by name: a folder beside this file, or a class of another package by its import path."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

from grpo_core.errors import EntenteError, one_line
from services.environments.environment import World

DEFAULT_WORLD = "diplomacy"
_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_LONGEST_PATH = 200
_NEEDED = ("name", "role_name", "measures", "language")  # class variables without a default


class WorldError(EntenteError, ValueError):
    """There is no such world, or it cannot be used; the message is one line."""


@cache
def world_names() -> tuple[str, ...]:
    """The names of the worlds beside this file, sorted."""
    here = Path(__file__).parent
    return tuple(sorted(path.parent.name for path in here.glob("*/world.py")))


@cache
def load_world(name: str) -> type[World]:
    """The world of a folder's name such as ``diplomacy``, or of an import path ``package.module:CLASS``.

    Importing runs the module's code: a path is to be trusted like any program.

    Raises WorldError if there is no such world, or it is none.
    """
    if name in world_names():
        module_name, class_name = f"services.environments.{name}.world", "WORLD"
    elif len(name) <= _LONGEST_PATH and _PATH.fullmatch(name):
        module_name, _, class_name = name.partition(":")
    else:
        raise WorldError(
            f"no world is called {one_line(repr(name), 80)}; there are {', '.join(world_names())}, or a class of yours "
            "as package.module:CLASS"
        )
    try:
        world = getattr(importlib.import_module(module_name), class_name)
    except Exception as error:  # a user's module may fail in any way
        reason = f"{type(error).__name__}: {one_line(error, 200)}"
        raise WorldError(f"the world {one_line(name, 120)} cannot be imported: {reason}") from error
    if not (isinstance(world, type) and issubclass(world, World)):
        raise WorldError(f"{one_line(name, 120)} is no subclass of services.environments.environment.World")
    if lacking := [*sorted(world.__abstractmethods__), *(each for each in _NEEDED if not getattr(world, each, None))]:
        raise WorldError(f"the world {one_line(name, 120)} lacks {', '.join(lacking)}")
    return world
