"""A population and its ratings on a terminal, from 80 columns, and as plain data for JSON."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cluster.cli.tables import new_table, plain, print_note
from opponents.league.league import RESULTS
from opponents.league.results import Results
from opponents.population.member import Member
from opponents.population.population import Population
from opponents.ratings.book import Rating, RatingBook
from opponents.ratings.storage import saved_ratings
from services.environments.environment import World

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Standing:
    """One member's rating, and the learner's results against it."""

    rating: Rating | None = None  # mean over the roles; None: it was in no game yet, and is no anchor
    games: int = 0  # that the learner played against it
    score: float | None = None  # the learner's pairwise score there, in (0, 1), older games fading; None: no games


def read_standings(run: Path, members: Iterable[str], world: World) -> Mapping[str, Standing]:
    """Read each member's standing from a run's folder. Raises PopulationError if a file is damaged."""
    book = saved_ratings(run, world.roles, world.rating_scale)
    results = Results.load(run / RESULTS, math.inf)
    games = results.games
    known = {*book.games, *book.anchors}
    return {
        member: Standing(
            book.rating(member) if member in known else None,
            games.get(member, 0),
            results.score(member) if games.get(member) else None,
        )
        for member in members
    }


def show_members(population: Population, standings: Mapping[str, Standing], console: Console) -> None:
    """Print a row for each member: its kind, standing, weight, first update and origin."""
    members = population.members
    active = sum(not member.retired for member in members)
    console.print(
        f"{population.path}: {active} of {len(members)} members may be drawn; revision {population.revision}, "
        f"training has reached update {population.update}",
        markup=False,
        highlight=False,
        soft_wrap=True,  # a path stays one word
    )
    table = new_table("member", "points", "games", "learner", "weight", "since")
    for name in ("what", "from"):
        table.add_column(name, overflow="fold")
    for member in members:
        standing = standings[member.id]
        points = "" if standing.rating is None else _points(standing.rating)
        score = "" if standing.score is None else f"{standing.score:.0%}"
        numbers = (points, str(standing.games or ""), score, f"{member.weight:g}", str(member.created_at_update))
        style = "dim" if member.retired else ""
        table.add_row(plain(member.id), *numbers, _what(member), plain(member.source or ""), style=style)
    console.print(table)
    print_note(
        console,
        "points: Elo scale, anchors without ±; games: the learner's against it; learner: its score there, newer games "
        "counting more, 50 % among equals; since: the first update whose line-ups may draw it",
    )


def show_member(facts: Mapping[str, Any], console: Console) -> None:
    """Print a member's ``facts``."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        shown = "-" if value is None else " <- ".join(value) if isinstance(value, list) else str(value)
        table.add_row(name.replace("_", " "), plain(shown))
    console.print(table)


def facts(population: Population, member: Member) -> dict[str, Any]:
    """A member's record, its ancestors in this population, and the path of its weights; plain JSON."""
    found = {**asdict(member), "lineage": _lineage(population, member)}
    if member.kind == "policy":
        path = population.weights_path(member)
        found["file"] = str(path)
        found["mib"] = round(path.stat().st_size / MIB, 2) if path.is_file() else None
    return found


def _lineage(population: Population, member: Member) -> list[str]:
    """Ids of this population's members that it was trained from, the youngest first."""
    ids: list[str] = []
    while not member.is_from_elsewhere and member.parent is not None:
        if member.parent in ids or member.parent not in population:
            break
        member = population[member.parent]
        ids.append(member.id)
    return ids


def members_as_json(population: Population, standings: Mapping[str, Standing]) -> dict[str, Any]:
    """All members with their standings, as plain JSON."""
    return {
        "path": str(population.path),
        "revision": population.revision,
        "update": population.update,
        "members": [
            {**asdict(member), "standing": _standing_facts(standings[member.id])} for member in population.members
        ],
    }


def _standing_facts(standing: Standing) -> dict[str, Any]:
    return {**asdict(standing), "rating": None if standing.rating is None else _facts(standing.rating)}


def _what(member: Member) -> str:
    parts: list[str] = [member.form or member.kind]
    parts += [f"{member.country.title()} only"] if member.country else []
    parts += ["pinned"] if member.pinned else []
    parts += ["retired"] if member.retired else []
    return ", ".join(parts)


def show_ratings(book: RatingBook, console: Console) -> None:
    """Print the players, the strongest first: over all roles, and as each role, beside the role's worth."""
    overall = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    by_role = Table(box=SIMPLE_HEAD, pad_edge=False, padding=0)  # seven of "1132±252" fit into 80 columns
    for table in (overall, by_role):
        table.add_column("player", overflow="fold", min_width=11)
    for name in ("points", "95 %", "games"):
        overall.add_column(name, justify="right")
    for name in _short(book.roles):
        by_role.add_column(name, justify="right")
    for player in _by_strength(book):
        rating, style = book.rating(player), "dim" if player in book.anchors else ""
        interval = "fixed" if player in book.anchors else "{:.0f} to {:.0f}".format(*rating.interval)
        overall.add_row(plain(player), f"{rating.mu:.0f}", interval, str(rating.games), style=style)
        by_role.add_row(plain(player), *(_points(book.rating(player, role)) for role in book.roles), style=style)
    by_role.add_section()
    by_role.add_row("its worth", *(_points(book.worth(role), sign="+") for role in book.roles))
    console.print(overall)
    console.print(by_role)
    print_note(console, "400 points: odds of ten to one to finish above; ±: half of the 95 % interval")


def ratings_as_json(book: RatingBook, role_name: str) -> dict[str, Any]:
    """The same as ``show_ratings``, as plain JSON; ``role_name`` is what the world calls a role."""
    return {
        "players": [
            {
                "id": player,
                "anchor": player in book.anchors,
                **_facts(book.rating(player)),
                f"by_{role_name}": {role: _facts(book.rating(player, role)) for role in book.roles},
            }
            for player in _by_strength(book)
        ],
        _plural(role_name): {role: _facts(book.worth(role)) for role in book.roles},
    }


def _short(roles: Sequence[str]) -> list[str]:
    """The beginnings of the roles' names that tell them apart, from three characters on."""
    length = next(length for length in itertools.count(3) if len({role[:length] for role in roles}) == len(roles))
    return [role[:length] for role in roles]


def _plural(name: str) -> str:
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def _by_strength(book: RatingBook) -> list[str]:
    return sorted(book.games, key=lambda player: (-book.rating(player).mu, player))


def _points(rating: Rating, sign: str = "") -> str:
    return f"{rating.mu:{sign}.0f}" + (f"±{1.96 * rating.sigma:.0f}" if rating.sigma else "")


def _facts(rating: Rating) -> dict[str, Any]:
    return {**asdict(rating), "interval95": rating.interval}
