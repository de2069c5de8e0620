"""Finds the checkpoint from which a learner resumes: undamaged, and consistent with the replay buffer."""

from __future__ import annotations

from pathlib import Path

from grpo_core.checkpoints.folders import checkpoint_versions
from grpo_core.checkpoints.store import Checkpoint, load_checkpoint
from grpo_core.errors import CheckpointError
from services.replay.buffer import Receipt, ReplayBuffer


def newest_checkpoint(run_dir: Path, buffer: ReplayBuffer) -> tuple[Checkpoint | None, int]:
    """Return the newest undamaged checkpoint, or None, and how many episodes the run had used by then.

    The episodes it used are acknowledged, because the process that wrote it may have died before it did so. A damaged
    checkpoint is passed over unless the buffer depends on it.

    Raises CheckpointError if the buffer has forgotten episodes that only a newer checkpoint, now damaged or gone, had
    used; ReplayError if the buffer cannot be reached.
    """
    damage: CheckpointError | None = None
    found: Checkpoint | None = None
    for version in reversed(checkpoint_versions(run_dir)):
        try:
            found = load_checkpoint(run_dir / "checkpoints" / str(version))
            break
        except CheckpointError as error:
            damage = damage or error
    extra = {} if found is None else found.extra
    buffer.acknowledge([Receipt(role, entry_id) for role, entry_id in extra.get("receipts", ())])
    acknowledged = int(buffer.stats()["acknowledged"])
    used = int(extra.get("used", 0 if found is None else acknowledged))  # older checkpoints lack it
    if acknowledged > used:
        place = run_dir / "checkpoints" if found is None else found.folder
        raise damage or CheckpointError(
            f"{place} is too old: the replay buffer has forgotten {acknowledged - used} episodes that only a newer "
            "checkpoint had used, and that one is not whole; put it back, or start a new run with policy.path"
        )
    return found, used
