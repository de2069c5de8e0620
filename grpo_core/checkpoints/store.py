"""Durable, atomic checkpoints in safetensors and JSON.

``<run>/checkpoints/<version>/`` has the model in Hugging Face layout, ``optimizer.safetensors``, ``trainer_state.json``
and ``manifest.json`` with size and SHA-256 of every other file. A folder is written under another name, flushed and
renamed, so a folder whose name is a number is complete.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file

from grpo_core.checkpoints.atomic_write import flush_to_disk, writing
from grpo_core.checkpoints.folders import MANIFEST, OPTIMIZER, SCHEMA, TRAINER_STATE, fingerprint, verified_manifest
from grpo_core.errors import CheckpointError, one_line
from grpo_core.files import read_json
from grpo_core.learner import Learner
from grpo_core.training.learner_state import LearnerState


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A verified checkpoint; the model's files lie in ``folder`` in Hugging Face layout."""

    folder: Path
    version: int
    state: LearnerState  # for Learner.load_state
    extra: dict[str, Any]  # what the caller stored beside it, e.g. buffer receipts


def save_checkpoint(
    run_dir: Path, learner: Learner, save_model: Callable[[Path], None], extra: Mapping[str, Any]
) -> Path:
    """Write ``run_dir/checkpoints/<learner.version>/``; returns when it would survive a power cut.

    ``save_model`` writes model and tokenizer files (safetensors) into the folder it gets. ``extra`` is JSON-able data
    that must be as durable as the weights, e.g. receipts of the episodes they used.

    Raises:
        StorageError: the disk cannot be written; no older checkpoint is changed.
        CheckpointError: ``save_model`` wrote a pickle.
    """
    parent = run_dir / "checkpoints"
    final = parent / str(learner.version)
    partial = parent / f".{learner.version}.partial-{os.getpid()}"
    with writing(final):
        try:
            parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            save_model(partial)
            pickled = [path.name for path in partial.rglob("*") if path.suffix in {".bin", ".pt", ".pth", ".pkl"}]
            if pickled:
                raise CheckpointError(f"the model was saved as {pickled[0]}; only safetensors are written")
            state = learner.save_state(partial / OPTIMIZER)
            record = {"schema": SCHEMA, "learner": state, "extra": dict(extra)}
            (partial / TRAINER_STATE).write_text(json.dumps(record, indent=1, allow_nan=False))
            files = sorted(path for path in partial.rglob("*") if path.is_file())
            manifest = {
                "schema": SCHEMA,
                "version": learner.version,
                "files": {path.relative_to(partial).as_posix(): fingerprint(path) for path in files},
            }
            (partial / MANIFEST).write_text(json.dumps(manifest, indent=1))
            flush_to_disk(*files, partial / MANIFEST)
            flush_to_disk(*(path for path in partial.rglob("*") if path.is_dir()), partial)
            _put_in_place(partial, final)
            flush_to_disk(parent)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return final


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read one checkpoint after comparing every file with the manifest.

    Raises:
        CheckpointError: a file is missing, altered or unreadable, or the schema is unknown.
    """
    manifest = verified_manifest(folder)
    try:
        record = read_json(folder / TRAINER_STATE)
        tensors = load_file(folder / OPTIMIZER)
        learner, extra = record["learner"], record["extra"]
        if not isinstance(learner, dict) or not isinstance(extra, dict):
            raise TypeError("its parts are no tables")
        return Checkpoint(folder, manifest["version"], LearnerState(tensors, learner), extra)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise CheckpointError(f"checkpoint {folder} cannot be read: {one_line(repr(error), 200)}") from error


def _put_in_place(partial: Path, final: Path) -> None:
    """Rename into place; replaces an older write of the same version."""
    trash = final.parent / f".{final.name}.trash-{os.getpid()}"
    shutil.rmtree(trash, ignore_errors=True)
    if final.exists():
        os.rename(final, trash)
    os.rename(partial, final)
    shutil.rmtree(trash, ignore_errors=True)
