"""``entente compare-players``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from cluster.api.arguments import check_ending
from cluster.cli.evaluate.options import (
    Csv,
    GamesPerCountry,
    Press,
    PressRounds,
    Processes,
    PublicPress,
    RayAddress,
    Seed,
    Temperature,
    Until,
    bars,
    place_for,
    say_warning,
    write_csv,
)
from cluster.cli.options import ChatPlayersConfig, Json, comma_separated, write_json
from cluster.errors import RunError

commands = typer.Typer()
MOST_PLAYERS = 7  # seats of a mixed table


@commands.command(
    epilog="Example: `entente compare-players runs/demo greedy dumbbot --games-per-country 20 --until 1908`"
)
def compare_players(
    players: Annotated[
        list[str],
        typer.Argument(
            metavar="PLAYER...", help="Two to seven checkpoint or run folders, champion, bots, or remote:NAMEs."
        ),
    ],
    against: Annotated[
        str,
        typer.Option(help="Bots, champion, folders or remote:NAMEs, comma-separated; each player meets six of each."),
    ] = "dumbbot",
    mixed: Annotated[
        bool, typer.Option(help="Whether all players also meet one another, at tables that they share evenly.")
    ] = True,
    games_per_country: GamesPerCountry = 20,
    until: Until = "1908",
    seed: Seed = 0,
    temperature: Temperature = None,
    press: Press = False,
    press_rounds: PressRounds = None,
    public_press: PublicPress = None,
    processes: Processes = None,
    ray_address: RayAddress = None,
    json_out: Json = None,
    csv_out: Csv = None,
    config: ChatPlayersConfig = None,
) -> None:
    """Compare players with one another: each against the same anchors, and all at mixed tables.

    Against an anchor all players get the same games, so that differences are paired. Every difference has a 95 %
    interval and a p-value that is corrected for the number of comparisons (Holm); what is not significant is said to be
    so. The probability of improvement is that of the better result at the same table, ties half.
    """
    from cluster.evaluation.players.opening import agreeing_world, chat_players, check_player, sharing_names
    from cluster.evaluation.players.press_rules import chosen_press

    names, anchors, ending = list(dict.fromkeys(players)), comma_separated(against), check_ending("--until", until)
    if not 2 <= len(names) <= MOST_PLAYERS:
        raise RunError(f"compare two to seven different players, not {len(names)}")
    if not anchors and not mixed:
        raise RunError("there is nothing to play: give --against, or leave out --no-mixed")
    met = [name for anchor in anchors for name in sharing_names(anchor)]
    rules, warning = chosen_press((*names, *met), press=press, rounds=press_rounds, public=public_press)
    remotes = chat_players(config, agreeing_world(draw_votes=False, press=rules))
    for name in (*names, *met):
        check_player(name, remotes)
    say_warning(warning)
    from cluster.cli.evaluate.comparison_tables import print_comparison
    from cluster.evaluation.evaluate import diplomacy_request
    from cluster.evaluation.figures.comparison import compare_players as compare

    request = diplomacy_request(games_per_country, ending, press=rules, seed=seed, temperature=temperature)
    place = place_for((*names, *met), remotes, 7 * games_per_country, processes, ray_address)
    try:
        with bars() as add_bar:
            found = compare(request, names, anchors, mixed=mixed, open_place=place, add_bar=add_bar)
    finally:  # print the cost of calls after a failure too
        for line in remotes.report():
            typer.echo(line)
    print_comparison(found, request.played)
    document: dict[str, Any] = {"players": names, "seed": seed, "evaluations": found.rows}
    write_json(json_out, {**document, "differences": found.differences, **_counters(remotes.stats())})
    write_csv(csv_out, request.played, found.rows, list(request.facts))


def _counters(counters: Any) -> dict[str, Sequence[Any]]:
    return {"remotes": counters} if counters else {}
