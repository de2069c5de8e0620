"""A member of the population: its identity, its origin, and the checksum of what it plays."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Literal

from grpo_core.errors import EntenteError, one_line
from grpo_core.files import path_inside
from opponents.settings import LARGEST_WEIGHT

Kind = Literal["bot", "policy", "remote", "player"]
Form = Literal["full", "adapter"]

LARGEST_VERSION = 10**9  # updates; a run makes some hundreds
LONGEST_TEXT = 500  # characters of an origin
_ROLE = re.compile(r"[A-Za-z0-9_-]{1,60}")
_ID = re.compile(r"(bot|policy|remote|player)/[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class PopulationError(EntenteError):
    """The population file, or a file it names, is missing, damaged or not as recorded."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A player that can be drawn. What it plays never changes: new weights are a new member."""

    id: str  # "bot/dumbbot", "policy/v20", "remote/gpt", "player/victim"
    kind: Kind
    name: str  # the bot's, chat or saved player's name, or the path of the weights file relative to the population file
    version: int  # of policies and saved players, the update count of the learner that made it; else 0
    checksum: str  # SHA-256 of the weights; of others, of the name (or settings) and this package's version
    parent: str | None  # id of the member it was trained from; if imported: its id in the other population
    created_at_update: int  # the first update of this run whose line-ups may draw it
    weight: float  # how often it is drawn, relative to the other active members; >= 0
    retired: bool = False
    form: Form | None = None  # of a policy: full weights or an adapter; None: not a policy, or recorded by schema 1
    country: str | None = None  # a specialist plays only this role; None: any
    config_digest: str | None = None  # of the configuration its policy was trained with; None: unknown
    # Run id or folder a user added it from, or "checkpoints/20"; a saved player's folder. None: not added by a user.
    source: str | None = None
    pinned: bool = False  # only a user retires it; as a snapshot it stays drawable however many newer ones there are

    @property
    def is_own_snapshot(self) -> bool:
        """Whether this run's training froze it."""
        return self.kind == "policy" and self.source is None

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether it was imported from another run or a folder."""
        return self.source is not None and not self.source.startswith("checkpoints/")


def check_member(member: Member) -> None:
    """Raise PopulationError for an impossible id, path, origin, weight, form or name of a role.

    A policy's weights lie beside the population's file or below: a file from elsewhere must not name any other.
    """
    if not _ID.fullmatch(member.id):
        raise PopulationError(
            f"a member's id is its kind, / and letters, digits, dots, - and _, not {one_line(repr(member.id), 80)}"
        )
    if member.kind == "policy":
        try:
            path_inside(Path(), member.name)
        except ValueError:
            shown = one_line(repr(member.name), 80)
            raise PopulationError(f"{member.id}: its weights {shown} are not in the population's folder") from None
    for text in (member.name, member.checksum, member.parent, member.config_digest, member.source):
        if text is not None and not (len(text) <= LONGEST_TEXT and text.isprintable()):
            raise PopulationError(f"{member.id}: {one_line(repr(text), 80)} is no name or origin of a member")
    for number in (member.version, member.created_at_update):
        if not 0 <= number <= LARGEST_VERSION:
            raise PopulationError(f"{member.id}: {number} is no number of updates")
    if not 0 <= member.weight <= LARGEST_WEIGHT:  # NaN is not either
        raise PopulationError(f"{member.id}: weight must be a number from 0 to {LARGEST_WEIGHT:g}, not {member.weight}")
    if member.form is not None and member.kind != "policy":
        raise PopulationError(f"{member.id}: a {member.kind} has no weights, so it has no form {member.form!r}")
    if member.country is not None and not _ROLE.fullmatch(member.country):
        shown = one_line(repr(member.country), 80)
        raise PopulationError(f"{member.id}: a role's name is up to 60 letters, digits, - and _, not {shown}")


def check_role(name: str, roles: Sequence[str], where: str = "", *, role_name: str = "role") -> None:
    """Raise PopulationError for a name that is none of a world's roles, with ``where`` before its message.

    ``role_name`` is what the world calls a role.
    """
    if name not in roles:
        shown = one_line(repr(name), 80)
        raise PopulationError(f"{where}there is no {role_name} {shown}; there are {', '.join(roles)}")


def release_checksum(text: str) -> str:
    """SHA-256 of a text and this package's version.

    The text is a bot's name, or the settings that decide how a chat player plays: the code and prompts behind them
    change only with a release.
    """
    return hashlib.sha256(f"{text}\n{package_version()}".encode()).hexdigest()


def package_version() -> str:
    """The installed version of Entente."""
    return metadata.version("entente")
