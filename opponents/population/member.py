"""A member of the population: who it is, where it comes from, and the checksum of what it plays."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from importlib import metadata
from typing import Literal

from grpo_core.errors import EntenteError
from services.environments.diplomacy.position import POWERS

Kind = Literal["bot", "policy", "remote"]
Form = Literal["full", "adapter"]


class PopulationError(EntenteError):
    """The population file, or a file it names, is not what it should be."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Somebody who can be invited to the table. What it plays never changes: new weights, new member."""

    id: str  # "bot/dumbbot", "policy/v20", "remote/gpt"
    kind: Kind
    name: str  # the bot's or remote's name, or the path of the weights file relative to the population file
    version: int  # the update count of the learner that made it for policies, else 0
    checksum: str  # SHA-256 of the weights file; for others of the name (or settings) and this package's version
    parent: str | None  # id of the member it was trained from; from elsewhere: the id it had in that population
    created_at_update: int  # the first update of this run whose line-ups may draw it
    weight: float  # how often it is drawn, relative to the other active members; >= 0
    retired: bool = False
    form: Form | None = None  # of a policy: full weights or an adapter's; None: no policy, or recorded before schema 2
    country: str | None = None  # a specialist plays this power alone; None: any
    config_digest: str | None = None  # of the configuration its policy was trained under; None: not known
    source: str | None = None  # run id or folder a person took it from, "checkpoints/20" of its run; None: nobody did
    pinned: bool = False  # only a person retires it; as a snapshot it stays drawable however many newer ones there are

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether another run or a folder is where it was taken from."""
        return self.source is not None and not self.source.startswith("checkpoints/")


def check_member(member: Member) -> None:
    """Refuse what no population can hold.

    Raises:
        PopulationError: an impossible weight, form or country.
    """
    check_weight(member.id, member.weight)
    if member.form is not None and member.kind != "policy":
        raise PopulationError(f"{member.id}: a {member.kind} has no weights, so it has no form {member.form!r}")
    if member.country is not None and member.country not in POWERS:
        raise PopulationError(f"{member.id}: there is no country {member.country!r}; the seven are {', '.join(POWERS)}")


def check_weight(member_id: str, weight: float) -> None:
    """How often to draw a member; PopulationError where it is negative or not finite."""
    if not (math.isfinite(weight) and weight >= 0):
        raise PopulationError(f"{member_id}: weight must be a finite number >= 0, not {weight}")


def bot_checksum(name: str) -> str:
    """SHA-256 of a bot's name and this package's version: what a bot plays changes only with a release."""
    return hashlib.sha256(f"{name}\n{package_version()}".encode()).hexdigest()


def chat_player_checksum(identity: str) -> str:
    """SHA-256 of what decides how a remote player plays, and of this package's version, which words its prompt."""
    return hashlib.sha256(f"{identity}\n{package_version()}".encode()).hexdigest()


def package_version() -> str:
    """The installed version of Entente."""
    return metadata.version("entente")
