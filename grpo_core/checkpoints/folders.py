"""Which checkpoints a run has, without loading any: light enough for a process that never touches a tensor."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from grpo_core.errors import CheckpointError

SCHEMA = 1
MANIFEST = "manifest.json"
OPTIMIZER = "optimizer.safetensors"
TRAINER_STATE = "trainer_state.json"


def checkpoint_versions(run_dir: Path) -> tuple[int, ...]:
    """Versions of all whole checkpoints of a run, ascending; half-written or thinned-out folders are skipped."""
    parent = run_dir / "checkpoints"
    if not parent.is_dir():
        return ()
    named = [path for path in parent.iterdir() if path.name.isascii() and path.name.isdigit()]
    return tuple(sorted(int(path.name) for path in named if is_whole_checkpoint(path)))


def latest_checkpoint(run_dir: Path) -> Path | None:
    """The newest whole checkpoint's folder, or None."""
    versions = checkpoint_versions(run_dir)
    return run_dir / "checkpoints" / str(versions[-1]) if versions else None


def passed_over(run_dir: Path, version: int) -> tuple[int, ...]:
    """Versions newer than the one that a run goes on from: half written, or damaged since."""
    named = [path.name for path in (run_dir / "checkpoints").glob("*") if path.name.isascii() and path.name.isdigit()]
    return tuple(sorted(newer for newer in map(int, named) if newer > version))


def prune_checkpoints(run_dir: Path, keep: int) -> tuple[int, ...]:
    """Delete all but the first and the newest ``keep`` (>= 1) checkpoints, and remains of interrupted writes.

    Returns the deleted versions. Call it from the process that writes them, not while another one does.
    """
    versions = checkpoint_versions(run_dir)
    doomed = tuple(version for version in versions[1:] if version not in versions[-keep:])
    parent = run_dir / "checkpoints"
    for version in doomed:
        # Renamed first: an interrupted deletion must not leave half a checkpoint under a number.
        trash = parent / f".{version}.trash-{os.getpid()}"
        os.rename(parent / str(version), trash)
        shutil.rmtree(trash, ignore_errors=True)
    for remains in (*parent.glob(".*.partial-*"), *parent.glob(".*.trash-*")):
        shutil.rmtree(remains, ignore_errors=True)
    return doomed


def is_whole_checkpoint(folder: Path) -> bool:
    """Cheap test: everything the manifest lists is there at its size (``load_checkpoint`` compares contents)."""
    try:
        files = read_manifest(folder)["files"]
        return all((folder / name).stat().st_size == expected["bytes"] for name, expected in files.items())
    except (CheckpointError, FileNotFoundError):
        return False


def verified_manifest(folder: Path) -> dict[str, Any]:
    """A checkpoint's manifest, every file compared with it first.

    Raises:
        CheckpointError: in one line, which file is missing, altered, or of an unknown schema.
    """
    manifest = read_manifest(folder)
    for name, expected in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            raise CheckpointError(f"checkpoint {folder} lacks {name}, which its manifest lists")
        if fingerprint(path) != expected:
            raise CheckpointError(f"checkpoint {folder}: {name} is not what was written (size or SHA-256 differs)")
    return manifest


def fingerprint(path: Path) -> dict[str, Any]:
    """Size and SHA-256 of a file, as a manifest has them."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a checkpoint's manifest says.

    Raises:
        CheckpointError: it is missing, unreadable, of an unknown schema, or lists too little.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
    except FileNotFoundError:
        raise CheckpointError(f"{folder} is no whole checkpoint: it has no {MANIFEST}") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"checkpoint {folder}: {MANIFEST} cannot be read: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise CheckpointError(f"checkpoint {folder}: {MANIFEST} is not of schema {SCHEMA}")
    lacking = {TRAINER_STATE, OPTIMIZER} - set(manifest.get("files", {}))
    if lacking:
        raise CheckpointError(f"checkpoint {folder}: {MANIFEST} does not list {min(lacking)}")
    return manifest
