"""A population on a terminal, from 80 columns, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cluster.cli.population_standings import Standing, standing_as_json
from opponents.population.member import Member
from opponents.population.population import Population

MIB = 1 << 20


def show_members(population: Population, standings: Mapping[str, Standing], console: Console) -> None:
    """Print everybody, a row each: who, what, how it fares, how often, since when, and from where."""
    members = population.members
    active = sum(not member.retired for member in members)
    console.print(
        f"{population.path}: {active} of {len(members)} members may be drawn; revision {population.revision}, "
        f"training has reached update {population.update}",
        markup=False,
        highlight=False,
        soft_wrap=True,  # a path stays one word
    )
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("member", overflow="fold", min_width=12)
    for name in ("points", "games", "learner", "weight", "since"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("what", "from"):
        table.add_column(name, overflow="fold")
    for member in members:
        style, since = "dim" if member.retired else "", str(member.created_at_update)
        fares = _fares(standings[member.id])
        table.add_row(member.id, *fares, f"{member.weight:g}", since, _what(member), member.source or "", style=style)
    console.print(table)
    console.print(
        "points: Elo scale, anchors without ±; games: the learner's against it; learner: its score there, newer games "
        "counting more, 50 % among equals; since: the first update whose line-ups may draw it",
        style="dim",
        highlight=False,
    )


def show_member(population: Population, member: Member, console: Console) -> None:
    """Print all that is recorded of one member, its lineage and its file."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts(population, member).items():
        shown = "-" if value is None else " <- ".join(value) if isinstance(value, list) else str(value)
        table.add_row(name.replace("_", " "), shown)
    console.print(table)


def facts(population: Population, member: Member) -> dict[str, Any]:
    """What is recorded of a member, its ancestors in this population, and where its weights lie; plain JSON."""
    found = {**asdict(member), "lineage": lineage(population, member)}
    if member.kind == "policy":
        path = population.weights_path(member)
        found["file"] = str(path)
        found["mib"] = round(path.stat().st_size / MIB, 2) if path.is_file() else None
    return found


def lineage(population: Population, member: Member) -> list[str]:
    """Ids of the members it was trained from, the youngest first, as far as this population knows them."""
    ids: list[str] = []
    while not member.is_from_elsewhere and member.parent is not None:
        if member.parent in ids or member.parent not in population:
            break
        member = population[member.parent]
        ids.append(member.id)
    return ids


def as_json(population: Population, standings: Mapping[str, Standing]) -> str:
    """Everybody and everything that is recorded of them, with how they fare."""
    document = population.document()
    found = {
        "path": str(population.path),
        "revision": document.revision,
        "update": document.update,
        "members": [
            {**asdict(member), "standing": standing_as_json(standings[member.id])} for member in document.members
        ],
    }
    return json.dumps(found, indent=2, allow_nan=False) + "\n"


def member_as_json(population: Population, member: Member) -> str:
    """One member, as ``facts`` has it."""
    return json.dumps(facts(population, member), indent=2, allow_nan=False) + "\n"


def _fares(standing: Standing) -> tuple[str, str, str]:
    """Points, games and the learner's score."""
    rating, score = standing.rating, standing.score
    points = "" if rating is None else f"{rating.mu:.0f}" + (f"±{1.96 * rating.sigma:.0f}" if rating.sigma else "")
    return points, str(standing.games or ""), "" if score is None else f"{score:.0%}"


def _what(member: Member) -> str:
    parts: list[str] = [member.form or member.kind]
    parts += [f"{member.country.title()} only"] if member.country else []
    parts += ["pinned"] if member.pinned else []
    parts += ["retired"] if member.retired else []
    return ", ".join(parts)
