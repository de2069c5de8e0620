"""A run's checkpoints: list, verify and prune them without loading tensors."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from grpo_core.errors import CheckpointError, one_line
from grpo_core.files import ANY_SIZE, check_regular, path_inside, read_json

SCHEMA = 1
MANIFEST = "manifest.json"
OPTIMIZER = "optimizer.safetensors"
TRAINER_STATE = "trainer_state.json"
_LARGEST_VERSION = 10**9  # updates; a run makes some hundreds


def checkpoint_versions(run_dir: Path) -> tuple[int, ...]:
    """Return the versions of a run's complete checkpoints, ascending."""
    return tuple(sorted(int(path.name) for path in _numbered(run_dir) if is_whole_checkpoint(path)))


def _numbered(run_dir: Path) -> list[Path]:
    folders = (run_dir / "checkpoints").glob("*")
    return [path for path in folders if path.name.isascii() and path.name.isdigit() and len(path.name) < 10]


def latest_checkpoint(run_dir: Path) -> Path | None:
    """Return the newest complete checkpoint's folder, or None."""
    versions = checkpoint_versions(run_dir)
    return run_dir / "checkpoints" / str(versions[-1]) if versions else None


def passed_over(run_dir: Path, version: int) -> tuple[int, ...]:
    """Return the versions newer than the one a run resumes from: they are incomplete or damaged."""
    return tuple(sorted(newer for path in _numbered(run_dir) if (newer := int(path.name)) > version))


def prune_checkpoints(run_dir: Path, keep: int) -> tuple[int, ...]:
    """Delete all but the first and the newest ``keep`` (>= 1) checkpoints, and remains of interrupted writes.

    Returns the deleted versions. Only the process that writes checkpoints may call this.
    """
    versions = checkpoint_versions(run_dir)
    doomed = tuple(version for version in versions[1:] if version not in versions[-keep:])
    parent = run_dir / "checkpoints"
    for version in doomed:
        # Renamed first, so that an interrupted deletion leaves no partial checkpoint under a number.
        trash = parent / f".{version}.trash-{os.getpid()}"
        os.rename(parent / str(version), trash)
        shutil.rmtree(trash, ignore_errors=True)
    for remains in (*parent.glob(".*.partial-*"), *parent.glob(".*.trash-*")):
        shutil.rmtree(remains, ignore_errors=True)
    return doomed


def is_whole_checkpoint(folder: Path) -> bool:
    """Check that every file in the manifest exists with its size; ``load_checkpoint`` compares contents too."""
    try:
        files = read_manifest(folder)["files"]
        # A machine with less memory than one file has still finds the newest checkpoint, not an older one.
        return all(check_regular(folder / name, ANY_SIZE) == expected["bytes"] for name, expected in files.items())
    except (CheckpointError, OSError):
        return False


def verified_manifest(folder: Path) -> dict[str, Any]:
    """Read a checkpoint's manifest and compare every file with it.

    Raises:
        CheckpointError: a file is missing or altered, or the schema is unknown.
    """
    manifest = read_manifest(folder)
    for name, expected in manifest["files"].items():
        path = folder / name
        try:
            is_same = check_regular(path, ANY_SIZE) == expected["bytes"] and fingerprint(path) == expected
        except FileNotFoundError:
            raise CheckpointError(f"checkpoint {folder} lacks {name}, which its manifest lists") from None
        except OSError as error:
            raise CheckpointError(f"checkpoint {folder}: {name} cannot be read: {error.strerror}") from error
        if not is_same:
            raise CheckpointError(f"checkpoint {folder}: {name} is not what was written (size or SHA-256 differs)")
    return manifest


def fingerprint(path: Path) -> dict[str, Any]:
    """Return a file's manifest entry: size and SHA-256."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def weights_checksum(folder: Path) -> str:
    """Return the SHA-256 of the weights in a checkpoint's or model's folder, in lower-case hexadecimal.

    That is the checksum of its one safetensors file, without the optimizer's. Of several (shards, adapters) it is that
    of the list of their names and checksums. A checkpoint's manifest already has them; ``verified_manifest`` compares.

    Raises:
        CheckpointError: there are none, or one cannot be read.
    """
    if (folder / MANIFEST).exists():
        found = {name: str(entry.get("sha256")) for name, entry in read_manifest(folder)["files"].items()}
    else:
        found = {path.relative_to(folder).as_posix(): _sha256(path) for path in folder.rglob("*.safetensors")}
    weights = {name: found[name] for name in sorted(found) if name.endswith(".safetensors") and name != OPTIMIZER}
    if not weights:
        raise CheckpointError(f"{folder} has no weights: no safetensors file")
    if len(weights) == 1:
        return next(iter(weights.values()))
    return hashlib.sha256("".join(f"{name} {checksum}\n" for name, checksum in weights.items()).encode()).hexdigest()


def _sha256(path: Path) -> str:
    try:
        check_regular(path, ANY_SIZE)
        return str(fingerprint(path)["sha256"])
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read a checkpoint's manifest: its version, and size and SHA-256 of files in the folder or below.

    Raises:
        CheckpointError: it is missing, unreadable, incomplete or of an unknown schema, or names a file elsewhere.
    """
    try:
        manifest = read_json(folder / MANIFEST)
    except FileNotFoundError:
        raise CheckpointError(f"{folder} is no whole checkpoint: it has no {MANIFEST}") from None
    except OSError as error:
        raise CheckpointError(f"checkpoint {folder}: {MANIFEST} cannot be read: {error.strerror}") from error
    except ValueError as error:
        reason = one_line(error, 200)
        raise CheckpointError(f"checkpoint {folder}: {MANIFEST} cannot be read: {reason}") from error
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise CheckpointError(f"checkpoint {folder}: {MANIFEST} is not of schema {SCHEMA}")
    version, files = manifest.get("version"), manifest.get("files")
    if type(version) is not int or not 0 <= version <= _LARGEST_VERSION:
        raise CheckpointError(f"checkpoint {folder}: {MANIFEST} has no number of updates as its version")
    if not isinstance(files, dict):
        raise CheckpointError(f"checkpoint {folder}: {MANIFEST} has no table of files")
    for name, entry in files.items():
        try:
            path_inside(folder, name)
        except ValueError as error:
            raise CheckpointError(f"checkpoint {folder}: {MANIFEST} is damaged: {error}") from None
        if not isinstance(entry, dict) or type(entry.get("bytes")) is not int:
            shown = one_line(repr(name), 80)
            raise CheckpointError(f"checkpoint {folder}: {MANIFEST} has no size and SHA-256 for {shown}")
    lacking = {TRAINER_STATE, OPTIMIZER} - set(files)
    if lacking:
        raise CheckpointError(f"checkpoint {folder}: {MANIFEST} does not list {min(lacking)}")
    return manifest
