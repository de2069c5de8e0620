"""Keeps a schedule of starts between the processes of a run: ``starts.json``, where later draws depend on anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from grpo_core.errors import one_line
from opponents.population.files import read_document, write_document
from opponents.population.member import PopulationError
from services.environments.starts import StartSchedule

SCHEMA_VERSION = 1


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    state: Any


def load_starts(starts: StartSchedule, path: Path) -> None:
    """Let a schedule go on from its saved state, if there is one. Raises PopulationError for a damaged file."""
    document = read_document(path, _Document, SCHEMA_VERSION)
    if document is None:
        return
    try:
        starts.load_state(document.state)
    except ValueError as error:
        raise PopulationError(
            f"{path} is damaged ({one_line(error, 200)}); remove it to continue without its data"
        ) from error


def save_starts(starts: StartSchedule, path: Path) -> None:
    """Replace the file in one step; nothing where the schedule depends on nothing."""
    state = starts.state()
    if state is not None:
        write_document(path, _Document(SCHEMA_VERSION, state))
