"""Measures players against anchors, all roles alike, in games that are the same for every player."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cluster.evaluation.evaluation_games import evaluation_row
from cluster.evaluation.figures.rows import ByRole, difference_row, measured_row, paired_estimate, results_by_role
from cluster.evaluation.figures.stopping import Look, Stopping, look_after_look
from cluster.evaluation.players.opening import name_of, newest, sharing_players
from cluster.evaluation.players.weights import NO_WEIGHTS, PlayerWeights, weights_of
from cluster.evaluation.tables.designs import one_against_others, rounds
from cluster.evaluation.tables.places import Open, Place, this_process
from cluster.evaluation.tables.saving import GameFolder
from cluster.evaluation.tables.table import Played, PlayerSpec
from cluster.runs.progress_bars import AddBar
from grpo_core.statistics.estimate import Estimate
from services.environments.diplomacy.ending import Ending
from services.environments.diplomacy.settings import DiplomacyEvaluation, GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.environments.environment import World
from services.environments.evaluation import stratified_estimate
from services.environments.playing import Policy
from services.environments.seat_player import SeatPlayer
from services.environments.settings import EvaluationSettings

AnyPlayer = str | Policy


@dataclass(frozen=True, slots=True)
class Request:
    """What is measured: the world, its games and their number, and the seed that they depend on."""

    world: World
    settings: EvaluationSettings
    seed: int = 0
    temperature: float | None = None  # of candidates that sample; None: that of their runs' evaluations
    stopping: Stopping | None = None  # None: all games are played
    games: GameFolder | None = None  # None: games are not kept

    @property
    def played(self) -> World:
        """The world as it is played and measured."""
        return self.world.as_measured(self.settings)

    @property
    def facts(self) -> dict[str, Any]:
        """What rows say of the games."""
        return dict(self.world.evaluation_facts(self.settings))


def diplomacy_request(
    games_per_country: int, ending: Ending, *, press: GameSettings | None = None, **more: Any
) -> Request:
    """Games of Diplomacy with an ending, with letters by the rules in ``press``; None: without letters."""
    settings = DiplomacyEvaluation(
        games_per_country=games_per_country, until_year=ending.until_year, quiet_years=ending.quiet_years
    )
    return Request(Diplomacy(press or GameSettings()), settings, **more)


@dataclass(slots=True)
class Measured:
    """The results of all candidates against one anchor."""

    against: str
    results: list[ByRole]  # of each candidate
    look: Look
    weights: list[PlayerWeights]  # of each candidate
    against_weights: PlayerWeights


def specs_of(request: Request, candidates: Sequence[AnyPlayer], anchors: Sequence[AnyPlayer]) -> list[PlayerSpec]:
    """The players to open: candidates, then anchors, whose games sample as in their own runs' evaluations.

    A run is its checkpoint of this moment, because one in training writes others while the games are played.
    """
    members = [each for anchor in anchors for each in sharing_players(anchor)] if request.world.has_opponents else []
    return [
        *(PlayerSpec(_now(player), request.temperature) for player in candidates),
        *(PlayerSpec(_now(player)) for player in members),
    ]


def _now(player: AnyPlayer) -> AnyPlayer:
    return newest(player) if isinstance(player, str) else player


def evaluate(
    request: Request,
    candidates: Sequence[AnyPlayer],
    anchors: Sequence[AnyPlayer],
    open_place: Open = this_process,
    add_bar: AddBar | None = None,
) -> list[Measured]:
    """Play each candidate in every role against each anchor in all other seats, which several may share (``a+b``).

    All candidates get the same games against an anchor, so that their results are paired. Players are names for
    ``open_policy`` or, where the place is this process, open ones.

    Raises RunError, CheckpointError or EndpointError if a player cannot be opened or does not answer.
    """
    specs = specs_of(request, candidates, anchors)
    with open_place(request.played, specs) as place:
        return evaluate_at(place, request, specs, anchors, add_bar)


def evaluate_at(
    place: Place, request: Request, specs: Sequence[PlayerSpec], anchors: Sequence[AnyPlayer], add_bar: AddBar | None
) -> list[Measured]:
    """``evaluate`` where the players ``specs``, those of ``specs_of``, are open."""
    weights = [weights_of(spec.player) for spec in specs]
    counts = [len(sharing_players(anchor)) if request.world.has_opponents else 0 for anchor in anchors]
    candidates = first = len(specs) - sum(counts)
    described = [] if request.games is None else request.games.described(specs)
    found = []
    for anchor, count in zip(anchors, counts, strict=True):
        numbers = range(first, first + count)
        of_anchor = weights[first] if count == 1 else NO_WEIGHTS  # of several, none can stand for all
        found.append(
            _against(request, place, described, weights[:candidates], numbers, name_of(anchor), of_anchor, add_bar)
        )
        first += count
    return found


def _against(
    request: Request,
    place: Place,
    described: Sequence[SeatPlayer],
    weights: list[PlayerWeights],
    anchors: Sequence[int],
    against: str,
    against_weights: PlayerWeights,
    add_bar: AddBar | None,
) -> Measured:
    world, played, candidates = request.world, list[Played](), len(weights)
    tables = [
        rounds(one_against_others(world, request.settings, candidate, anchors, against, request.seed))
        for candidate in range(candidates)
    ]
    games = sum(len(own) for each in tables for own in each)
    advance = None if add_bar is None else add_bar(world.opposition(against), games)

    def done(each: Played) -> None:
        played.append(each)
        if advance is not None:
            advance(1)

    def play(first: int, end: int) -> None:
        wanted = [table for each in tables for own in each[first:end] for table in own]
        place.play(wanted if request.games is None else request.games.saved(wanted, described), done)

    def results() -> list[ByRole]:
        return [results_by_role(world, played, candidate) for candidate in range(candidates)]

    def watched(level: float) -> list[Estimate | None]:
        assert request.stopping is not None
        measure = request.stopping.found(request.played.measures)
        first, *others = found = results()
        if request.stopping.excludes_zero:
            return [paired_estimate(measure, first, other, level) for other in others]
        return [stratified_estimate(each, measure, level) for each in found]

    look = look_after_look(len(tables[0]), request.stopping, play, watched)
    return Measured(against, results(), look, weights, against_weights)


def evaluation_rows(
    request: Request, candidates: Sequence[AnyPlayer], measured: Sequence[Measured]
) -> list[dict[str, Any]]:
    """A row for each candidate and anchor: its games and every measure with its interval and its definition."""
    world = request.played
    return [
        {
            "checkpoint": name_of(candidate),
            "version": weights.version,
            "checksum": weights.checksum,
            "against": each.against,
            "against_version": each.against_weights.version,
            "against_checksum": each.against_weights.checksum,
            **request.facts,
            **measured_row(world, results, each.look.level),
            **_said(request, each.look),
            "definitions": dict(world.definitions),
        }
        for each in measured
        for candidate, weights, results in zip(candidates, each.weights, each.results, strict=True)
    ]


def difference_rows(
    request: Request, candidates: Sequence[AnyPlayer], measured: Sequence[Measured]
) -> list[dict[str, Any]]:
    """A row for each further candidate and anchor: what it has more than the first one, with paired intervals."""
    return [
        {
            "checkpoint": name_of(candidate),
            "compared_with": name_of(candidates[0]),
            "against": each.against,
            **request.facts,
            **difference_row(request.played, each.results[0], results, each.look.level),
        }
        for each in measured
        for candidate, results in zip(candidates[1:], each.results[1:], strict=True)
    ]


def _said(request: Request, look: Look) -> dict[str, Any]:
    """How a sequential evaluation ended; nothing for one of fixed size."""
    if request.stopping is None:
        return {}
    return {"look": look.number, "looks": look.looks, "level_of_each_interval": look.level}


def evaluate_in(
    world: World, settings: EvaluationSettings, candidate: AnyPlayer, against: Sequence[AnyPlayer], *, seed: int = 0
) -> list[dict[str, Any]]:
    """Play one candidate against each anchor in this process, and return rows of ``summary.json``'s evaluations.

    Raises as ``evaluate``.
    """
    rows = []
    specs = [PlayerSpec(each) for each in (candidate, *against) if world.has_opponents or each is candidate]
    with this_process(world.as_evaluated(settings), specs) as place:
        for number, anchor in enumerate(map(name_of, against), start=1):
            played: list[Played] = []
            place.play(one_against_others(world, settings, 0, [number], anchor, seed), played.append)
            results = [each for own in results_by_role(world, played, 0).values() for each in own]
            rows.append(evaluation_row(world, settings, results, checkpoint=name_of(candidate), against=anchor))
    return rows
