"""Finds the checkpoint from which a learner resumes: undamaged, and consistent with the replay buffer."""

from __future__ import annotations

from pathlib import Path

from cluster.actors.checkpoint_extra import CheckpointExtra, read_extra
from grpo_core.checkpoints.folders import checkpoint_versions
from grpo_core.checkpoints.store import Checkpoint, load_checkpoint
from grpo_core.errors import CheckpointError
from grpo_core.types import RoleMeasures
from services.replay.buffer import Receipt, ReplayBuffer


def newest_checkpoint(run_dir: Path, buffer: ReplayBuffer, measured: RoleMeasures) -> tuple[Checkpoint | None, int]:
    """Return the newest undamaged checkpoint, or None, and how many episodes the run had used by then.

    The episodes it used are acknowledged, because the process that wrote it may have died before it did so. A damaged
    checkpoint is passed over unless the buffer depends on it.

    Raises CheckpointError if the buffer has forgotten episodes that only a newer checkpoint, now damaged or gone, had
    used; ReplayError if the buffer cannot be reached.
    """
    damage: CheckpointError | None = None
    found: Checkpoint | None = None
    extra: CheckpointExtra | None = None
    for version in reversed(checkpoint_versions(run_dir)):
        try:
            found = load_checkpoint(run_dir / "checkpoints" / str(version))
            extra = read_extra(found, measured)
            break
        except CheckpointError as error:
            found, damage = None, damage or error
    buffer.acknowledge([Receipt(*receipt) for receipt in (extra.receipts if extra else ())])
    acknowledged = int(buffer.stats()["acknowledged"])
    used = 0 if extra is None else acknowledged if extra.used is None else extra.used  # older checkpoints lack it
    if acknowledged > used:
        place = run_dir / "checkpoints" if found is None else found.folder
        raise damage or CheckpointError(
            f"{place} is too old: the replay buffer has forgotten {acknowledged - used} episodes that only a newer "
            "checkpoint had used, and that one is not whole; put it back, or start a new run with policy.path"
        )
    return found, used
