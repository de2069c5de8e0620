"""All tasks for small networks by name: control problems, and any turn-taking game of OpenSpiel."""

from __future__ import annotations

from services.environments.control.catalogue import CONTROL_TASKS
from services.environments.open_spiel.spiel_task import SpielTask
from services.environments.tensor_task import TensorTask


def make_task(name: str) -> TensorTask:
    """Make the task of a name; raises TaskError if a package is missing or there is none of that name."""
    if name in CONTROL_TASKS:
        return CONTROL_TASKS[name]()
    return SpielTask(name)
