"""Helpers: populations without weight files, and games with known results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from opponents.matchmaking.lineup import LineupBlock
from opponents.population.member import Member
from opponents.population.population import Population
from opponents.ratings.game_score import GameScore
from tests.unit.opponents.world_cases import standing


def member(name: str, kind: str = "bot", *, version: int = 0, **fields: object) -> Member:
    """A member by its id's last part, without a weights file."""
    plain = {"id": f"{kind}/{name}", "checksum": name, "parent": None, "created_at_update": version, "weight": 1.0}
    return Member(kind=kind, name=name, version=version, **{**plain, **fields})  # type: ignore[arg-type]


def population_of(folder: Path, *members: Member) -> Population:
    made = Population(folder / "population.json")
    for each in members:
        made.add(each)
    return made


def snapshot(version: int, **fields: object) -> Member:
    return member(f"v{version}", "policy", version=version, **fields)


def game(block: LineupBlock, own: int, others: Mapping[str, int], solo: str | None = None) -> GameScore:
    """A game in which the learner ends with ``own`` centres, and every other seat with those of its player's id."""
    players = block.players
    centers = {power: own if power == block.role else others.get(player, own) for power, player in players.items()}
    return GameScore(players, standing(centers, solo))
