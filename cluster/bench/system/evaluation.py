"""Evaluation games a second on all cores, beside the bare game loop of the same games on as many processes."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from cluster.bench.figure import Figure, interleaved_seconds
from cluster.evaluation.evaluate import diplomacy_request
from cluster.evaluation.tables.designs import one_against_others
from cluster.evaluation.tables.places import Place, processes, usable_cores
from cluster.evaluation.tables.table import Played, PlayerSpec, Table
from grpo_core.seeds import derive_seed
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.ending import Ending
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS

GAMES_PER_COUNTRY = 20
UNTIL_YEAR = 1908
TIMEOUT_S = 600.0
CANDIDATE, ANCHOR = "greedy", "dumbbot"


def run(rounds: int) -> list[Figure]:
    """Time one greedy bot against six DumbBots, ``rounds`` alternating timings of the same games a side.

    The processes of both sides are started, and have played, before the timing. Raises RuntimeError if the two sides
    play different games.
    """
    request, cores = diplomacy_request(GAMES_PER_COUNTRY, Ending(UNTIL_YEAR)), usable_cores()
    tables = one_against_others(request.world, request.settings, 0, [1], ANCHOR, seed=0)
    few = tables[: 2 * cores]
    specs = [PlayerSpec(CANDIDATE), PlayerSpec(ANCHOR)]
    with (
        processes(cores, request.played, specs) as place,
        ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool,
    ):
        if centers_of(place, few) != bare_centers(pool, few):
            raise RuntimeError("the two loops played different games; their rates cannot be compared")
        seconds = interleaved_seconds(
            {"ours": lambda: centers_of(place, tables), "bare": lambda: bare_centers(pool, tables)}, rounds
        )
    games = len(tables)
    return [
        Figure(
            "evaluation",
            "games/s",
            games / seconds["ours"],
            games / seconds["bare"],
            f"the bare game loop in {cores} processes",
            note=f"{games} games of one {CANDIDATE} and six {ANCHOR}s to {UNTIL_YEAR}, all measures counted, median of "
            f"{rounds}",
        )
    ]


def centers_of(place: Place, tables: list[Table]) -> dict[int, float]:
    """The candidate's final centres by the game's seed, from an evaluation."""
    found: dict[int, float] = {}

    def done(played: Played) -> None:
        found[played.table.seed] = played.outcomes[played.table.role]["centers"]

    place.play(tables, done)
    return found


def bare_centers(pool: ProcessPoolExecutor, tables: list[Table]) -> dict[int, float]:
    """The same from the bare loop."""
    jobs = [(table.seed, table.role) for table in tables]
    played = pool.map(play_bare, jobs, timeout=TIMEOUT_S)
    return {seed: centers for (seed, _), centers in zip(jobs, played, strict=True)}


def play_bare(job: tuple[int, str]) -> float:
    """Play a game with nothing but the game and its bots; returns the centres of the candidate."""
    seed, role = job
    candidate, anchor = make_bot(CANDIDATE), make_bot(ANCHOR)
    bots = {power: candidate if power == role else anchor for power in POWERS}
    game, steps = DiplomacyGame(UNTIL_YEAR), 0
    while not game.is_done:
        position = game.position
        for power in position.to_move:
            game.set_orders(power, bots[power].actions(position, power, derive_seed(seed, "decision", steps, power)))
        game.process()
        steps += 1
    return float(game.centers()[role])
