"""Plays evaluation games of any world, and makes rows of their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cluster.configs.checks import has_champion
from grpo_core.checkpoints.atomic_write import write_atomically
from opponents.champion.shipped import CHAMPION, shipped_champion
from opponents.play import play_game
from opponents.player_names import player_name
from opponents.population.member import package_version
from services.environments.environment import World
from services.environments.evaluation import EvaluationGame, EvaluationResult
from services.environments.playing import Policy
from services.environments.seat_player import SeatPlayer


def saved_first(games: Sequence[EvaluationGame], folder: Path, commit: str) -> list[EvaluationGame]:
    """The games; the first of each role is to be saved as ``<folder>/<ROLE>.json``, with this code's ``commit``."""
    return [
        game if game.number else replace(game, save_to=str(folder / f"{game.role}.json"), commit=commit)
        for game in games
    ]


async def play_evaluation_game(
    world: World,
    spec: EvaluationGame,
    candidate: Policy,
    opponent: Policy,
    described: tuple[SeatPlayer, SeatPlayer] | None = None,
) -> EvaluationResult:
    """Play one evaluation game: ``candidate`` in its seat, ``opponent`` in all others.

    ``world`` is as evaluations play it. ``described`` are the two players, for a game that is saved; None: the file
    does not say who played.
    """
    seats = dict.fromkeys(world.roles, opponent) if world.has_opponents else {}
    seats[spec.role] = world.muted(candidate) if spec.is_muted else candidate
    game = world.new_game(spec.start, spec.role, spec.seed, game_id=f"evaluation-{spec.seed}")
    result = (await play_game(game, seats, spec.seed)).result
    if spec.save_to is not None:
        players = None if described is None else {seat: described[seat != spec.role] for seat in seats}
        saved = world.saved_game(game, players, spec.seed, spec.commit, package_version())
        if saved is not None:
            write_atomically(Path(spec.save_to), saved.encode() + b"\n")
    return EvaluationResult(spec.role, spec.number, result.outcomes[spec.role], result.notes.get(spec.role, ""))


def evaluation_row(
    world: World, settings: Any, results: Sequence[EvaluationResult], *, checkpoint: str, against: str
) -> dict[str, Any]:
    """Return one row of ``summary.json``'s evaluations, played under the section ``[evaluation]``."""
    return {
        "checkpoint": checkpoint,
        "against": against,
        **(_of_champion() if player_name(against).saved == CHAMPION and has_champion(world) else {}),
        **world.evaluation_facts(settings),
        **world.summarize(settings, results),
    }


def _of_champion() -> dict[str, Any]:
    """Which weights an anchor had that changes with releases, under the names of ``evaluation_rows``."""
    champion = shipped_champion()
    return {"against_version": champion.version, "against_checksum": champion.checksum}
