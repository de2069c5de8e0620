"""Import a policy into a run's population: from a checkpoint, a model's folder, or another population."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from grpo_core.checkpoints.atomic_write import flush_to_disk, writing
from grpo_core.checkpoints.folders import MANIFEST, TRAINER_STATE, checkpoint_versions, latest_checkpoint, read_manifest
from grpo_core.errors import CheckpointError, one_line
from grpo_core.files import read_json, read_text
from opponents.population.member import Member, PopulationError
from opponents.population.population import Population
from opponents.population.weights import form_of

POPULATION = "population.json"  # in a run's folder
FOLDER = "population"  # beside it, for weights
_SNAPSHOT_NAME = re.compile(r"v\d+(?:-(.+))?")  # names of the snapshots that training makes, with a role
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The location and the origin of a policy."""

    model: Path  # folder in Hugging Face layout: its weights, or the base of its adapter
    member: tuple[Path, Member] | None  # a population file and one of its members; None: the model itself
    name: str  # proposed, without ``policy/``
    version: int  # the update count of its learner; 0: unknown, or before the first update
    source: str  # run id, or the folder
    parent: str | None = None
    config_digest: str | None = None
    country: str | None = None  # the only role that the member plays in its own population


def find_source(folder: Path, member_id: str | None = None) -> Source:
    """The policy in a folder: a run's newest checkpoint, or a member of its population; else the folder itself.

    Raises PopulationError if there is no such policy, CheckpointError if the checkpoint's manifest cannot be read.
    """
    if not folder.is_dir():
        raise PopulationError(f"there is no folder {folder}; name a run, a checkpoint or a model's folder, or a bot")
    if member_id is not None:
        return _member_source(folder, member_id)
    checkpoint = latest_checkpoint(folder) or folder
    if (checkpoint / MANIFEST).exists():
        return checkpoint_source(checkpoint)
    if not (checkpoint / "config.json").exists():
        raise PopulationError(f"{folder} is no run with a checkpoint, and no model's folder either (no config.json)")
    whole = folder.resolve()
    return Source(model=folder, member=None, name=_plain_name(whole.name), version=0, source=str(whole))


def checkpoint_source(checkpoint: Path) -> Source:
    """A checkpoint of a run, which may be training at the same time. Raises CheckpointError if it is incomplete."""
    version = read_manifest(checkpoint)["version"]
    try:
        digest = read_json(checkpoint / TRAINER_STATE)["extra"].get("config_digest")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = one_line(repr(error), 200)
        raise CheckpointError(f"checkpoint {checkpoint}: {TRAINER_STATE} cannot be read: {reason}") from error
    run = checkpoint.resolve().parent.parent
    return Source(
        model=checkpoint,
        member=None,
        name=f"{_plain_name(run.name)}-v{version}",
        version=version,
        source=_run_id(run) or str(checkpoint.resolve()),
        config_digest=None if digest is None else str(digest),
    )


def base_of(run: Path) -> Path:
    """The checkpoint that a run's engines start with; PopulationError if there is none yet."""
    versions = checkpoint_versions(run)
    if not versions:
        raise PopulationError(f"{run} has no checkpoint yet, so nothing can be compared with it: start the run first")
    return run / "checkpoints" / str(versions[0])


def member_id_of(name: str, roles: Sequence[str]) -> str:
    """``policy/NAME`` of a user's name, with or without ``policy/``.

    Raises PopulationError if it has other characters, or is the name of a run's own snapshot, also of one for one of
    the world's ``roles`` alone.
    """
    plain = name.removeprefix("policy/")
    if _NAME.fullmatch(plain) is None:
        raise PopulationError(f"a member's name is letters, digits, dots, - and _, not {plain!r}")
    snapshot = _SNAPSHOT_NAME.fullmatch(plain)
    if snapshot is not None and snapshot[1] in (None, *roles):
        raise PopulationError(f"policy/{plain} is what the run calls its own snapshot; choose another name")
    return f"policy/{plain}"


def import_policy(
    population: Population,
    source: Source,
    data: bytes,
    *,
    member_id: str,
    weight: float = 1.0,
    country: str | None = None,
    pinned: bool = False,
) -> Member:
    """Copy weights beside a population's file and add them as a member; works while the run is training.

    Raises PopulationError if the id is taken, or a member has the same weights already, StorageError if a file cannot
    be written; no file is left behind.
    """
    target = population.path.parent / FOLDER / f"{member_id.removeprefix('policy/')}.safetensors"
    checksum = hashlib.sha256(data).hexdigest()
    _check_new(population, member_id, checksum, country)
    incoming = target.with_name(f".{target.name}.{os.getpid()}")
    with writing(target):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            incoming.write_bytes(data)
            flush_to_disk(incoming, incoming.parent)
            member = Member(
                id=member_id,
                kind="policy",
                name=f"{FOLDER}/{target.name}",
                version=source.version,
                checksum=checksum,
                parent=source.parent,
                created_at_update=0,
                weight=weight,
                form=form_of(member_id, incoming),
                country=country,
                config_digest=source.config_digest,
                source=source.source,
                pinned=pinned,
            )
            with population.transaction():
                _check_new(population, member_id, checksum, country)
                joined = population.add(dataclasses.replace(member, created_at_update=population.join_update))
                incoming.replace(target)
                flush_to_disk(target, target.parent)
            return joined
        finally:
            incoming.unlink(missing_ok=True)


def _member_source(run: Path, member_id: str) -> Source:
    population = Population.load(run / POPULATION)
    member = population[member_id]
    if member.kind != "policy":
        raise PopulationError(f"{member_id} of {run} is a {member.kind}; add it by its name")
    plain = member.id.removeprefix("policy/")
    return Source(
        model=base_of(run),
        member=(population.path, member),
        name=f"{_plain_name(run.resolve().name)}-{plain}",
        version=member.version,
        source=member.source or _run_id(run) or str(run.resolve()),
        parent=member.id,
        config_digest=member.config_digest,
        country=member.country,
    )


def check_id_is_free(population: Population, member_id: str) -> None:
    """Raise PopulationError if a population has a member of that id."""
    if member_id in population:
        raise PopulationError(f"{population.path} already has a member {member_id!r}; choose another name with --id")


def _check_new(population: Population, member_id: str, checksum: str, country: str | None) -> None:
    check_id_is_free(population, member_id)
    for member in population.members:
        if (member.checksum, member.country) == (checksum, country):
            retired = ", but is retired" if member.retired else ""
            raise PopulationError(f"{member.id} of {population.path} plays these very weights already{retired}")


def _run_id(run: Path) -> str | None:
    path = run / "run_id"
    try:
        return read_text(path, 4096).strip() if path.is_file() else None
    except (OSError, ValueError):
        return None  # damaged; the run is then named by its folder


def _plain_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-_") or "policy"
