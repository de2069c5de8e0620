"""Plays scenarios with several players, and sums up their scores with intervals and paired differences."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cluster.errors import RunError
from cluster.evaluation.event_loop import run_in_loop
from cluster.evaluation.players.opening import name_of, open_policy
from cluster.evaluation.tables.playing import CONCURRENT_GAMES
from cluster.runs.progress_bars import AddBar
from grpo_core.errors import one_line
from grpo_core.seeds import derive_seed
from grpo_core.statistics.estimate import SHARE, Estimate
from grpo_core.statistics.means import clustered_mean
from opponents.play import play_game
from opponents.players.chat_players import ChatPlayers
from services.environments.diplomacy.bots.registry import BOT_NAMES, make_bot
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.scenarios.behaviour import loyal, other_players
from services.environments.diplomacy.scenarios.scenario import FAMILIES, LOYAL, Scenario
from services.environments.diplomacy.scenarios.scenario_game import ScenarioGame
from services.environments.playing import Policy

_DIFFERENCES = (-1.0, 1.0)  # of two scores
ALL = "all"


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """One game of a scenario."""

    player: str
    scenario: str
    family: str
    country: str
    repeat: int
    seed: int  # the same for all players
    score: float  # 0 to 1
    centers: int  # of the country, at the horizon


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """The scores of a player over some scenarios."""

    player: str
    family: str  # or ``ALL``
    country: str  # or ``ALL``
    scenarios: int
    games: int
    score: float
    score_ci95: tuple[float, float] | None  # None: one scenario gives no interval
    difference: float | None  # to the first player; None: it is the first
    difference_ci95: tuple[float, float] | None


def run_scenarios(
    players: Sequence[str | Policy],
    scenarios: Sequence[Scenario],
    repeats: int,
    seed: int,
    remotes: ChatPlayers,
    *,
    temperature: float | None = None,
    add_bar: AddBar | None = None,
) -> list[ScenarioResult]:
    """Play each scenario ``repeats`` times with each player, all with the same seeds.

    Players are open ones, names for ``open_policy``, or ``loyal:BOT``; ``remotes`` are closed at the end. A checkpoint
    samples at ``temperature``, by default that of its run's evaluations.

    Raises RunError, CheckpointError or EndpointError if a player cannot be opened or does not answer, and
    ScenarioError if a position cannot be set up.
    """
    for scenario in scenarios:
        ScenarioGame.begin(scenario)
    opened = {name_of(each): _opened(each, remotes, temperature) for each in players}
    running = asyncio.Semaphore(CONCURRENT_GAMES)

    async def play_one(
        name: str, scenario: Scenario, repeat: int, advance: Callable[[int], None] | None
    ) -> ScenarioResult:
        own = derive_seed(seed, "scenario", scenario.id, repeat)
        async with running:
            game = ScenarioGame.begin(scenario, f"{scenario.id}-{repeat}")
            await play_game(game, {**other_players(scenario), scenario.country: opened[name](scenario)}, own)
        if advance is not None:
            advance(1)
        country = scenario.country
        centers = game.centers()[country]
        return ScenarioResult(name, scenario.id, scenario.family, country, repeat, own, game.score(), centers)

    async def play_all() -> list[ScenarioResult]:
        results: list[ScenarioResult] = []
        try:
            for name in opened:
                advance = None if add_bar is None else add_bar(name, len(scenarios) * repeats)
                cells = [(scenario, repeat) for scenario in scenarios for repeat in range(repeats)]
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(play_one(name, *cell, advance)) for cell in cells]
                results += [task.result() for task in tasks]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        finally:
            await remotes.close()
        return results

    return run_in_loop(play_all)


def _opened(player: str | Policy, remotes: ChatPlayers, temperature: float | None) -> Callable[[Scenario], Policy]:
    """What plays the country of a scenario."""
    if isinstance(player, str) and player.startswith(LOYAL):
        name = player.removeprefix(LOYAL)
        if name not in BOT_NAMES:
            raise RunError(f"{one_line(player, 80)}: {LOYAL} goes before a bot's name ({', '.join(BOT_NAMES)})")
        bot = make_bot(name)
        return lambda scenario: loyal(bot, scenario)
    policy = open_policy(player, remotes, temperature=temperature, evaluation=True)
    return lambda _: policy


def score_rows(results: Sequence[ScenarioResult]) -> list[ScoreRow]:
    """Mean scores of each player: by family, by country, in each family's countries, and of all.

    Repeats of one scenario are one cluster of the intervals: other scenarios of the kind would differ as these do. The
    difference is to the first player among the results, game by game, over the same seeds.
    """
    players = list(dict.fromkeys(each.player for each in results))
    families = [family for family in FAMILIES if any(each.family == family for each in results)]
    countries = [power for power in POWERS if any(each.country == power for each in results)]
    rows = []
    for family in (*families, ALL):
        for country in (*countries, ALL):
            chosen = [each for each in results if family in (each.family, ALL) and country in (each.country, ALL)]
            if chosen:
                rows += _rows(chosen, players, family, country)
    return rows


def _rows(results: Sequence[ScenarioResult], players: Sequence[str], family: str, country: str) -> list[ScoreRow]:
    scores: dict[str, dict[str, dict[int, float]]] = {player: {} for player in players}
    for each in results:
        scores[each.player].setdefault(each.scenario, {})[each.repeat] = each.score
    first, rows = scores[players[0]], []
    for player in players:
        own = scores[player]
        mean = _estimate({name: list(repeats.values()) for name, repeats in own.items()}, SHARE)
        paired = None
        if player != players[0]:
            pairs = {
                name: [value - first[name][repeat] for repeat, value in repeats.items()]
                for name, repeats in own.items()
            }
            paired = _estimate(pairs, _DIFFERENCES)
        rows.append(
            ScoreRow(
                player,
                family,
                country,
                len(own),
                mean.n,
                mean.mean,
                mean.interval,
                None if paired is None else paired.mean,
                None if paired is None else paired.interval,
            )
        )
    return rows


def _estimate(clusters: Mapping[str, Sequence[float]], within: tuple[float, float]) -> Estimate:
    found = clustered_mean(list(clusters.values()), within)
    assert found is not None  # every player played something
    return found


def results_document(results: Sequence[ScenarioResult], repeats: int, seed: int) -> dict[str, Any]:
    """The rows and all games, as JSON data."""
    return {
        "repeats": repeats,
        "seed": seed,
        "rows": [asdict(row) for row in score_rows(results)],
        "games": [asdict(result) for result in results],
    }
