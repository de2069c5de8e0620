"""What the learner keeps in a checkpoint beside its own state, read with types."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import msgspec

from cluster.actors.messages import UpdateReport
from grpo_core.checkpoints.store import Checkpoint
from grpo_core.errors import CheckpointError, one_line
from services.metrics.rolling_windows import EpisodeFacts

_FACTS = tuple(field.name for field in dataclasses.fields(EpisodeFacts))
_Count = Annotated[int, msgspec.Meta(ge=0)]


class CheckpointExtra(msgspec.Struct, frozen=True):
    """The parts of ``Checkpoint.extra``; older checkpoints lack some."""

    countries: dict[str, list[list[Any]]]  # ``CountryWindows.state``
    report: UpdateReport | None
    receipts: list[tuple[str, str]] = []  # role and id of the entries used since the checkpoint before
    used: _Count | None = None  # episodes that the run had used
    excused_blocks: list[str] = []


def read_extra(checkpoint: Checkpoint) -> CheckpointExtra:
    """Return what the learner stored. Raises CheckpointError if a part is missing or of another type."""
    try:
        extra = msgspec.convert(checkpoint.extra, CheckpointExtra)
        for rows in extra.countries.values():
            for row in rows:
                if len(row) > len(_FACTS):
                    raise ValueError("an episode has too many facts")
                msgspec.convert(dict(zip(_FACTS, row, strict=False)), EpisodeFacts)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        reason = one_line(error, 200)
        raise CheckpointError(f"checkpoint {checkpoint.folder}: its trainer_state.json is damaged: {reason}") from error
    return extra
