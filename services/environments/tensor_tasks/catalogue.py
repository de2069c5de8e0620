"""All tasks for small networks by name: control problems, Diplomacy, and any turn-taking game of OpenSpiel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from services.environments.diplomacy.unit_choices.task import UnitChoices
from services.environments.tensor_task import TensorTask
from services.environments.tensor_tasks.control.control_tasks import CONTROL_TASKS
from services.environments.tensor_tasks.open_spiel.spiel_task import SpielTask

_DIPLOMACY: Mapping[str, Callable[[], TensorTask]] = {
    "diplomacy": UnitChoices,
    "diplomacy_random": partial(UnitChoices, "diplomacy_random", "random", random_return=0.9, goal=5.0),
    "diplomacy_dumbbot": partial(UnitChoices, "diplomacy_dumbbot", "dumbbot", random_return=-1.0, goal=1.0),
}


def make_task(name: str) -> TensorTask:
    """Make the task of a name; raises TaskError if a package is missing or there is none of that name."""
    if name in CONTROL_TASKS:
        return CONTROL_TASKS[name]()
    if name in _DIPLOMACY:
        return _DIPLOMACY[name]()
    return SpielTask(name)
