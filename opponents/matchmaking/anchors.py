"""Anchors: which members they are, and which blocks are played against them alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor

from opponents.population.member import Member
from opponents.settings import member_id
from services.environments.diplomacy.position import POWERS


def anchors_among(members: Sequence[Member], named: Sequence[str]) -> tuple[Member, ...]:
    """The members that ``opponents.anchors`` names; all bots where it names nobody."""
    if not named:
        return tuple(member for member in members if member.kind == "bot")
    ids = {member_id(name) for name in named}
    return tuple(member for member in members if member.id in ids)


def is_against_anchors(share: float, number: int, place: int) -> bool:
    """Whether a country's block ``number`` (from 0) belongs to the ``share`` in [0, 1] against anchors alone.

    ``place``: the country's, 0 to 6, in any order that stays the same. Among any K successive blocks of a country
    there are ⌊K share⌋ or ⌈K share⌉ of them, and among the seven countries' first K blocks ⌊7 K share⌋ in all: the
    countries take turns, each a seventh of a step behind the one before it.
    """
    step = Fraction(str(share))  # as written in the config: 0.1 is a tenth
    behind = Fraction(place, len(POWERS))
    return floor((number + 1) * step + behind) > floor(number * step + behind)
