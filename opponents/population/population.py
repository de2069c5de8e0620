"""The versioned population: bots, chat players and frozen policies in one JSON file that many processes may change.

Every change is one transaction (``Population.transaction``): under a lock the newest file is read, changed and replaced
by a new revision. The training process takes part at every update boundary, before it draws any block of the new
bound, and records the update it has reached. A member that is added by hand may be drawn from the update after that
one (``Population.join_update``). So a new member never changes a line-up that may have been drawn already, in this
process or in one that resumes from an older checkpoint, and a resume removes only snapshots that training will make
again. Retiring a member or changing its weight affects the line-ups drawn afterwards; earlier line-ups are on record
(``opponents.league.league``) and their blocks are played to the end.
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
    bot_checksum,
    chat_player_checksum,
    check_member,
    check_weight,
    package_version,
)
from opponents.population.storage import StoredMembers
from opponents.population.weights import checksum_of, form_of


class Population(StoredMembers):
    """Members by id, in the order they joined. Nothing is on disk before ``save`` or the end of ``transaction``."""

    def active(self) -> tuple[Member, ...]:
        """Members that may be drawn, sorted by id."""
        return tuple(sorted((m for m in self._members.values() if not m.retired), key=lambda m: m.id))

    def add(self, member: Member) -> Member:
        """Take in a member.

        Raises:
            PopulationError: the id is taken, or the weight, form or country is impossible.
        """
        if member.id in self._members:
            raise PopulationError(f"{self.path} already has a member {member.id!r}")
        check_member(member)
        self._members[member.id] = member
        return member

    def add_bot(
        self, name: str, *, weight: float = 1.0, created_at_update: int = 0, country: str | None = None
    ) -> Member:
        """Take in a bot as ``bot/<name>``; raises as ``add`` does."""
        return self._add_fixed("bot", name, bot_checksum(name), weight, created_at_update, country)

    def add_chat_player(
        self,
        name: str,
        identity: str,
        *,
        weight: float = 1.0,
        created_at_update: int = 0,
        country: str | None = None,
    ) -> Member:
        """Take in a remote player as ``remote/<name>``; raises as ``add`` does.

        ``identity`` says what decides how it plays (``ChatPlayerSettings.identity``).
        """
        return self._add_fixed("remote", name, chat_player_checksum(identity), weight, created_at_update, country)

    def _add_fixed(
        self,
        kind: Literal["bot", "remote"],
        name: str,
        checksum: str,
        weight: float,
        created_at_update: int,
        country: str | None,
    ) -> Member:
        """A member without weights of ours, as ``<kind>/<name>``."""
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
        """Take in a frozen weights file, by default as ``policy/v<version>``, the name of this run's own snapshots.

        The file is named relative to the population file, so a run folder can be moved as a whole.
        ``created_at_update`` defaults to the version.

        Raises:
            PopulationError: there is no such file, it is not safetensors, or as ``add`` does.
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
        """Take in this run's learner as it was frozen at an update, a child of the snapshot before.

        With a ``country``, as ``policy/v<version>-<country>``, it is the learner's specialist for it.

        Raises:
            PopulationError: as ``add_policy`` does.
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
        """Id of the newest snapshot that this run's training froze before ``version``; None: there is none.

        ``country``: of its specialist for that country.
        """
        own = [
            member
            for member in self._members.values()
            if member.kind == "policy" and member.source is None and member.version < version
            if member.country == country
        ]
        return max(own, key=lambda member: member.version).id if own else None

    def retire(self, member_id: str) -> Member:
        """Never draw this member again; its entry and its file stay. PopulationError for an unknown id."""
        return self._change(member_id, retired=True)

    def reactivate(self, member_id: str) -> Member:
        """Take back ``retire``; it may be drawn from the next update on. PopulationError for an unknown id."""
        return self._change(member_id, retired=False, created_at_update=self.join_update)

    def pin(self, member_id: str, *, pinned: bool = True) -> Member:
        """Let only a person retire it, however many newer snapshots there are. PopulationError for an unknown id."""
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
        """Note that training has come to ``update``; it never goes back, also when a run resumes further back."""
        self.update = max(self.update, update)

    def remove_snapshots_after(self, update: int) -> tuple[str, ...]:
        """Drop the snapshots that training itself froze after ``update``: a run that resumes there makes them anew.

        Who was added by hand stays (a ``source``, or a bot or remote): nobody would add it again. Returns their ids.
        """
        later = tuple(
            member.id
            for member in self._members.values()
            if member.kind == "policy" and member.source is None and member.version > update
        )
        for member_id in later:
            del self._members[member_id]
        return later

    def weights_path(self, member: Member) -> Path:
        """Where a policy's weights lie."""
        if member.kind != "policy":
            raise PopulationError(f"{member.id} is a {member.kind} and has no weights file")
        return self.path.parent / member.name

    def verify(self, member: Member) -> None:
        """Check that the member still plays what it played when it joined (bots and policies).

        Raises:
            PopulationError: names the member and the file whose checksum differs (bots: the package version).
        """
        if member.kind == "bot":
            if bot_checksum(member.name) != member.checksum:
                raise PopulationError(
                    f"{member.id} in {self.path} was recorded by another version of this package, "
                    f"which is now {package_version()}"
                )
            return
        path = self.weights_path(member)
        found = checksum_of(member.id, path)
        if found != member.checksum:
            raise PopulationError(
                f"{member.id}: {path} has SHA-256 {found[:12]}..., but {self.path} recorded {member.checksum[:12]}..."
            )


def snapshot_id(version: int, country: str | None) -> str:
    """What training calls a snapshot: ``policy/v20``, and a specialist's ``policy/v20-FRANCE``."""
    return f"policy/v{version}" if country is None else f"policy/v{version}-{country}"
