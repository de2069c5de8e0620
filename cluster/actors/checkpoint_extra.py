"""What the learner keeps in a checkpoint beside its own state, read with types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from cluster.actors.messages import UpdateReport
from grpo_core.checkpoints.store import Checkpoint
from grpo_core.errors import CheckpointError, one_line
from grpo_core.types import RoleMeasures
from services.metrics.rolling_windows import read_row

_Count = Annotated[int, msgspec.Meta(ge=0)]


class CheckpointExtra(msgspec.Struct, frozen=True):
    """The parts of ``Checkpoint.extra``; older checkpoints lack some."""

    windows: dict[str, list[list[Any]]] = msgspec.field(name="countries")  # ``RoleWindows.state``
    report: UpdateReport | None
    measures: list[str] = []  # ``RoleWindows.measures``
    receipts: list[tuple[str, str]] = []  # role and id of the entries used since the checkpoint before
    used: _Count | None = None  # episodes that the run had used
    excused_blocks: list[str] = []


def read_extra(checkpoint: Checkpoint, measured: RoleMeasures) -> CheckpointExtra:
    """Return what the learner stored. Raises CheckpointError if a part is missing or of another type."""
    try:
        stored = {
            name: _with_roles(part, measured) if name == "report" else part for name, part in checkpoint.extra.items()
        }
        extra = msgspec.convert(stored, CheckpointExtra)
        for rows in extra.windows.values():
            for row in rows:
                read_row(row, measured, extra.measures)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        reason = one_line(error, 200)
        raise CheckpointError(f"checkpoint {checkpoint.folder}: its trainer_state.json is damaged: {reason}") from error
    return extra


def _with_roles(report: Any, measured: RoleMeasures) -> Any:
    """Return a stored report; one of an earlier version, in which roles were countries, in today's form."""
    summaries = report.get("countries") if isinstance(report, Mapping) else None
    if not isinstance(summaries, Mapping):
        return report
    kept = {name: part for name, part in report.items() if name not in ("countries", "country_episodes")}
    roles = {role: _with_values(summary, measured) for role, summary in summaries.items()}
    return {**kept, "roles": roles, "role_episodes": report.get("country_episodes", {})}


def _with_values(summary: Any, measured: RoleMeasures) -> Any:
    if not isinstance(summary, Mapping):
        return summary
    values = {measure.name: summary.get(measure.name) for measure in measured.trained}
    return {**{name: value for name, value in summary.items() if name not in values}, "values": values}
