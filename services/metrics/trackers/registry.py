"""The trackers by name: the packages that each needs, and how to open it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from services.metrics.catalogue import MetricsError
from services.metrics.trackers.tracker import TrackedRun, Tracker

_HERE = "services.metrics.trackers"


@dataclass(frozen=True, slots=True)
class TrackerLibrary:
    """One library; ``module.Tracker`` records with it."""

    package: str  # what is imported, and the extra that installs it
    module: str


LIBRARIES = {
    "tensorboard": TrackerLibrary("tensorboard", f"{_HERE}.to_tensorboard"),
    "wandb": TrackerLibrary("wandb", f"{_HERE}.to_wandb"),
    "trackio": TrackerLibrary("trackio", f"{_HERE}.to_trackio"),
}


def missing_trackers(names: Sequence[str]) -> list[str]:
    """Return those of the trackers whose library is not installed; nothing is imported."""
    return [name for name in names if find_spec(LIBRARIES[name].package) is None]


def check_trackers(names: Sequence[str]) -> None:
    """Raise MetricsError, with the command that installs it, if a tracker's library is not installed."""
    if missing := missing_trackers(names):
        raise MetricsError(
            f"metrics.trackers names {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not "
            f"installed: {install_command(missing)}, or leave it out"
        )


def install_command(names: Sequence[str]) -> str:
    """Return the command that installs these trackers' libraries."""
    return f"pip install 'entente[{','.join(names)}]'"


def open_tracker(name: str, run: TrackedRun) -> Tracker:
    """Import the library and begin, or continue, the run in it; raises whatever the library raises."""
    tracker: Tracker = import_module(LIBRARIES[name].module).RunTracker(run)
    return tracker
