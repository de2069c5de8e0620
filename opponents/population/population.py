"""The versioned population: bots, chat players and frozen policies in one JSON file that many processes may change.

Every change is one transaction (``Population.transaction``): under a lock the newest file is read, changed and replaced
by a new revision. Training records the update it has reached before it draws blocks of the new bound. A member added by
hand may be drawn from the update after that one (``Population.join_update``), so it never changes a line-up that may
have been drawn already, here or in a run that resumes from an older checkpoint. Retiring a member affects only later
line-ups; earlier ones are logged and played to the end.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any, Literal

from grpo_core.checkpoints.atomic_write import flush_to_disk, writing
from opponents.population.member import Member, PopulationError, check_member, package_version, release_checksum
from opponents.population.saved_players import SavedPlayer, check_saved_player
from opponents.population.storage import StoredMembers
from opponents.population.weights import check_checksum, checksum_of, form_of


class Population(StoredMembers):
    """Members by id, in the order they joined. Changes reach the disk at ``save`` or the end of a ``transaction``."""

    def active(self) -> tuple[Member, ...]:
        """Members that may be drawn, sorted by id."""
        return tuple(sorted((m for m in self._members.values() if not m.retired), key=lambda m: m.id))

    def add(self, member: Member) -> Member:
        """Add a member. Raises PopulationError if the id is taken, or the weight, form or role is impossible."""
        if member.id in self._members:
            raise PopulationError(f"{self.path} already has a member {member.id!r}")
        check_member(member)
        self._members[member.id] = member
        return member

    def add_bot(
        self, name: str, *, weight: float = 1.0, created_at_update: int = 0, country: str | None = None
    ) -> Member:
        """Add a bot as ``bot/<name>``; raises as ``add``."""
        return self.add(_without_weights("bot", name, name, weight, created_at_update, country))

    def add_chat_player(
        self, name: str, identity: str, *, weight: float = 1.0, created_at_update: int = 0, country: str | None = None
    ) -> Member:
        """Add a chat player, with its ``ChatPlayerSettings.identity``, as ``remote/<name>``; raises as ``add``."""
        return self.add(_without_weights("remote", name, identity, weight, created_at_update, country))

    def add_saved_player(
        self,
        name: str,
        player: SavedPlayer,
        *,
        weight: float = 1.0,
        created_at_update: int = 0,
        country: str | None = None,
    ) -> Member:
        """Add a policy that stays in its folder, as ``player/<name>``; raises as ``add``.

        Every process that opens it compares the weights there with the checksum that joined.
        """
        member = _without_weights("player", name, "", weight, created_at_update, country)
        version, checksum = player.version, player.checksum
        return self.add(dataclasses.replace(member, version=version, checksum=checksum, source=player.source))

    def add_snapshot(
        self,
        weights: Path,
        *,
        version: int,
        country: str | None = None,
        config_digest: str | None = None,
    ) -> Member:
        """Add this run's learner as frozen at an update: ``policy/v20``, or its specialist ``policy/v20-FRANCE``.

        Its parent is the snapshot before. The path of ``weights`` is stored relative to the population file, so a run
        folder can be moved as a whole.

        Raises PopulationError if there is no such file, it is not safetensors, or as ``add``.
        """
        member_id = f"policy/v{version}" if country is None else f"policy/v{version}-{country}"
        form = form_of(member_id, weights)
        with writing(weights):
            flush_to_disk(weights, weights.parent)
        return self.add(
            Member(
                id=member_id,
                kind="policy",
                name=Path(os.path.relpath(weights, self.path.parent)).as_posix(),
                version=version,
                checksum=checksum_of(member_id, weights),
                parent=self.newest_snapshot_before(version, country),
                created_at_update=version,
                weight=1.0,
                form=form,
                country=country,
                config_digest=config_digest,
            )
        )

    def newest_snapshot_before(self, version: int, country: str | None = None) -> str | None:
        """Id of the newest snapshot (of the specialist for ``country``) frozen before ``version``, or None."""
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
        """Raise PopulationError if a policy's weights (for bots, the package version) have changed since it joined.

        CheckpointError if a saved player's folder has none.
        """
        if member.kind == "player":
            check_saved_player(member)
        elif member.kind != "bot":
            path = self.weights_path(member)
            check_checksum(member, checksum_of(member.id, path), str(path))
        elif release_checksum(member.name) != member.checksum:
            raise PopulationError(
                f"{member.id} in {self.path} was recorded by another version of this package, "
                f"which is now {package_version()}"
            )


def _without_weights(
    kind: Literal["bot", "remote", "player"], name: str, identity: str, weight: float, update: int, country: str | None
) -> Member:
    return Member(
        id=f"{kind}/{name}",
        kind=kind,
        name=name,
        version=0,
        checksum=release_checksum(identity),
        parent=None,
        created_at_update=update,
        weight=weight,
        country=country,
    )
