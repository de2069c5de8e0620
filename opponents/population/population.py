"""The versioned population: bots, chat players and frozen policies in one JSON file that many processes may change.

Every change is one transaction (``Population.transaction``): under a lock the newest file is read, changed and replaced
by a new revision. Training records the update it has reached at every update boundary, before it draws blocks of the
new bound. A member added by hand may be drawn from the update after that one (``Population.join_update``), so it never
changes a line-up that may have been drawn already, here or in a run that resumes from an older checkpoint. Retiring a
member or changing its weight affects only later line-ups; earlier ones are logged and played to the end.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any, Literal

from grpo_core.checkpoints.atomic_write import flush_to_disk
from opponents.population.member import (
    Member,
    PopulationError,
    check_member,
    check_weight,
    package_version,
    release_checksum,
)
from opponents.population.storage import StoredMembers
from opponents.population.weights import check_checksum, checksum_of, form_of


class Population(StoredMembers):
    """Members by id, in the order they joined. Changes reach the disk at ``save`` or the end of a ``transaction``."""

    def active(self) -> tuple[Member, ...]:
        """Members that may be drawn, sorted by id."""
        return tuple(sorted((m for m in self._members.values() if not m.retired), key=lambda m: m.id))

    def add(self, member: Member) -> Member:
        """Add a member. Raises PopulationError if the id is taken, or the weight, form or country is impossible."""
        if member.id in self._members:
            raise PopulationError(f"{self.path} already has a member {member.id!r}")
        check_member(member)
        self._members[member.id] = member
        return member

    def add_bot(
        self, name: str, *, weight: float = 1.0, created_at_update: int = 0, country: str | None = None
    ) -> Member:
        """Add a bot as ``bot/<name>``; raises as ``add``."""
        return self._add_without_weights("bot", name, release_checksum(name), weight, created_at_update, country)

    def add_chat_player(
        self, name: str, identity: str, *, weight: float = 1.0, created_at_update: int = 0, country: str | None = None
    ) -> Member:
        """Add a chat player as ``remote/<name>``; raises as ``add``.

        ``identity`` holds what decides how it plays (``ChatPlayerSettings.identity``).
        """
        checksum = release_checksum(identity)
        return self._add_without_weights("remote", name, checksum, weight, created_at_update, country)

    def _add_without_weights(
        self,
        kind: Literal["bot", "remote"],
        name: str,
        checksum: str,
        weight: float,
        created_at_update: int,
        country: str | None,
    ) -> Member:
        return self.add(
            Member(
                id=f"{kind}/{name}",
                kind=kind,
                name=name,
                version=0,
                checksum=checksum,
                parent=None,
                created_at_update=created_at_update,
                weight=weight,
                country=country,
            )
        )

    def add_policy(
        self,
        weights: Path,
        *,
        version: int,
        member_id: str | None = None,
        parent: str | None = None,
        weight: float = 1.0,
        created_at_update: int | None = None,
        country: str | None = None,
        config_digest: str | None = None,
        source: str | None = None,
        pinned: bool = False,
    ) -> Member:
        """Add a frozen weights file, by default as ``policy/v<version>``, the name of this run's own snapshots.

        Its path is stored relative to the population file, so a run folder can be moved as a whole.
        ``created_at_update`` defaults to the version.

        Raises PopulationError if there is no such file, it is not safetensors, or as ``add``.
        """
        member_id = member_id or f"policy/v{version}"
        form = form_of(member_id, weights)
        flush_to_disk(weights, weights.parent)
        return self.add(
            Member(
                id=member_id,
                kind="policy",
                name=Path(os.path.relpath(weights, self.path.parent)).as_posix(),
                version=version,
                checksum=checksum_of(member_id, weights),
                parent=parent,
                created_at_update=version if created_at_update is None else created_at_update,
                weight=weight,
                form=form,
                country=country,
                config_digest=config_digest,
                source=source,
                pinned=pinned,
            )
        )

    def add_snapshot(self, weights: Path, *, version: int, config_digest: str, country: str | None = None) -> Member:
        """Add this run's learner as frozen at an update; its parent is the snapshot before. Raises as ``add_policy``.

        With a ``country``, it is the learner's specialist for it: ``policy/v<version>-<country>``.
        """
        return self.add_policy(
            weights,
            version=version,
            member_id=snapshot_id(version, country),
            parent=self.newest_snapshot_before(version, country),
            country=country,
            config_digest=config_digest,
        )

    def newest_snapshot_before(self, version: int, country: str | None = None) -> str | None:
        """Id of the newest snapshot that training froze before ``version``, or None.

        With a ``country``, of the learner's specialist for it.
        """
        own = [m for m in self._members.values() if m.is_own_snapshot and m.version < version and m.country == country]
        return max(own, key=lambda member: member.version).id if own else None

    def retire(self, member_id: str) -> Member:
        """Never draw this member again; its entry and file stay. PopulationError for an unknown id."""
        return self._change(member_id, retired=True)

    def reactivate(self, member_id: str) -> Member:
        """Undo ``retire``; the member may be drawn from the next update on. PopulationError for an unknown id."""
        return self._change(member_id, retired=False, created_at_update=self.join_update)

    def pin(self, member_id: str, *, pinned: bool = True) -> Member:
        """Protect a member from automatic retirement, or stop that. PopulationError for an unknown id."""
        return self._change(member_id, pinned=pinned)

    def set_weight(self, member_id: str, weight: float) -> Member:
        """Draw this member more or less often; PopulationError for an unknown id or an impossible weight."""
        check_weight(member_id, weight)
        return self._change(member_id, weight=weight)

    def _change(self, member_id: str, **fields: Any) -> Member:
        member = dataclasses.replace(self[member_id], **fields)
        self._members[member_id] = member
        return member

    def advance_to(self, update: int) -> None:
        """Record that training has reached ``update``; the number never falls, also if a run resumes further back."""
        self.update = max(self.update, update)

    def remove_snapshots_after(self, update: int) -> tuple[str, ...]:
        """Remove the snapshots that training froze after ``update``, and return their ids.

        A run that resumes at ``update`` makes them again. Members added by hand stay: nothing would add them again.
        """
        later = tuple(m.id for m in self._members.values() if m.is_own_snapshot and m.version > update)
        for member_id in later:
            del self._members[member_id]
        return later

    def weights_path(self, member: Member) -> Path:
        """The path of a policy's weights file."""
        if member.kind != "policy":
            raise PopulationError(f"{member.id} is a {member.kind} and has no weights file")
        return self.path.parent / member.name

    def verify(self, member: Member) -> None:
        """Raise PopulationError if a policy's weights (for bots, the package version) have changed since it joined."""
        if member.kind != "bot":
            path = self.weights_path(member)
            check_checksum(member, checksum_of(member.id, path), str(path))
        elif release_checksum(member.name) != member.checksum:
            raise PopulationError(
                f"{member.id} in {self.path} was recorded by another version of this package, "
                f"which is now {package_version()}"
            )


def snapshot_id(version: int, country: str | None) -> str:
    """The id of a snapshot that training makes: ``policy/v20``; of a specialist: ``policy/v20-FRANCE``."""
    return f"policy/v{version}" if country is None else f"policy/v{version}-{country}"
