"""Reward components by name: those of this folder, and functions of the user by import path."""

from __future__ import annotations

import difflib
import importlib
import inspect
import re

from grpo_core.errors import EntenteError, one_line
from services.environments.word_problems.rewards.components import COMPONENTS, Component

_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_LONGEST_PATH = 200


class RewardError(EntenteError, ValueError):
    """A reward component cannot be used; the message is one line that names it and the reason."""


def is_import_path(name: str) -> bool:
    """Return whether a name has the form ``package.module:function``."""
    return len(name) <= _LONGEST_PATH and _PATH.fullmatch(name) is not None


def component(name: str) -> Component:
    """Return a component by its name, or a function by its import path ``package.module:function``.

    Importing runs the module's code: a path is to be trusted like any program.

    Raises:
        RewardError: the name is unknown (the nearest is named), the module or function is missing or fails on import,
            or it cannot be called with a completion and a problem.
    """
    if name in COMPONENTS:
        return COMPONENTS[name]
    shown = one_line(repr(name), 80)
    if not is_import_path(name):
        near = difflib.get_close_matches(name[:60], COMPONENTS, n=1, cutoff=0.0)[0]
        raise RewardError(
            f"unknown reward component {shown}; did you mean {near!r}? Components are: {', '.join(COMPONENTS)}, or a "
            "function of yours as package.module:function"
        )
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's module may fail in any way
        reason = f"{type(error).__name__}: {one_line(error, 200)}"
        raise RewardError(f"the module of reward component {shown} cannot be imported: {reason}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise RewardError(f"the module of reward component {shown} has no function {function_name}")
    try:
        inspect.signature(function).bind("", None)
    except (TypeError, ValueError) as error:
        reason = one_line(error, 100)
        raise RewardError(f"reward component {shown} must take a completion and a problem: {reason}") from error
    return function  # type: ignore[no-any-return]  # its results are checked where it is called


def checked_value(name: str, value: object) -> float:
    """Return a component's result as a float. Raises RewardError if it is no number from 0 to 1."""
    if not isinstance(value, int | float) or not 0 <= value <= 1:  # NaN is not either
        raise RewardError(f"reward component {name} must return a number from 0 to 1, not {one_line(repr(value), 80)}")
    return float(value)
