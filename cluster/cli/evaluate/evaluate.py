"""``entente evaluate``."""

from __future__ import annotations

from typing import Annotated

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
    SaveGames,
    Seed,
    Temperature,
    Until,
    bars,
    command_line,
    game_folder,
    parse_stopping,
    place_for,
    say_warning,
    write_csv,
)
from cluster.cli.options import ChatPlayersConfig, Json, comma_separated, write_json
from cluster.errors import RunError

commands = typer.Typer()


@commands.command(
    epilog="Examples: `entente evaluate runs/demo --against random,dumbbot --games-per-country 10 --until 1905`; "
    "`entente evaluate lookahead --against dumbbot --until end --games-per-country 2 --save-games games/lookahead`"
)
def evaluate(
    players: Annotated[
        list[str],
        typer.Argument(
            metavar="PLAYER...",
            help="Checkpoint or run folders, champion, bots, or remote:NAMEs; all of them meet the same games.",
        ),
    ],
    against: Annotated[
        str,
        typer.Option(
            help="Bots, champion, folders or remote:NAMEs, comma-separated; each fills the six other seats in turn. "
            "dumbbot+greedy share them."
        ),
    ] = "random",
    games_per_country: GamesPerCountry = 10,
    until: Until = "1910",
    seed: Seed = 0,
    temperature: Temperature = None,
    press: Press = False,
    press_rounds: PressRounds = None,
    public_press: PublicPress = None,
    stop_within: Annotated[
        str | None,
        typer.Option(
            metavar="MEASURE=WIDTH",
            help="Stop early once every player's interval of a measure ends at most WIDTH from its middle, e.g. "
            "sum_of_squares=0.02. The games are looked at five times, and the intervals keep 95 %.",
        ),
    ] = None,
    stop_when_clear: Annotated[
        str | None,
        typer.Option(
            metavar="MEASURE",
            help="Stop early once every further player's difference to the first one in a measure excludes 0, in the "
            "same way.",
        ),
    ] = None,
    processes: Processes = None,
    ray_address: RayAddress = None,
    save_games: SaveGames = None,
    json_out: Json = None,
    csv_out: Csv = None,
    config: ChatPlayersConfig = None,
) -> None:
    """Measure players against fixed anchors, all seven countries alike, with 95 % intervals.

    The champion compares its orders by simulated games; policy:champion is its policy alone, and lookahead:runs/demo
    adds such games to another policy. muted:runs/press is a policy that reads letters and writes none.

    Further players are also compared with the first one: they meet the same games, so the differences are paired. The
    JSON has more measures than the table (ranks, ties, draws, orders), and says what each one is and whose published
    figures it can be put beside.
    """
    from cluster.evaluation.players.opening import agreeing_world, chat_players, check_player, sharing_names
    from cluster.evaluation.players.press_rules import chosen_press

    names, anchors, ending = list(dict.fromkeys(players)), comma_separated(against), check_ending("--until", until)
    if not anchors:
        raise RunError("--against names no player; give bots, e.g. --against random,dumbbot")
    stopping = parse_stopping(stop_within, stop_when_clear, len(names))
    met = [name for anchor in anchors for name in sharing_names(anchor)]
    rules, warning = chosen_press((*names, *met), press=press, rounds=press_rounds, public=public_press)
    remotes = chat_players(config, agreeing_world(draw_votes=False, press=rules))
    for name in (*names, *met):
        check_player(name, remotes)
    say_warning(warning)
    from cluster.cli.evaluate.tables import difference_text, evaluation_text
    from cluster.evaluation.evaluate import difference_rows, diplomacy_request, evaluation_rows
    from cluster.evaluation.evaluate import evaluate as measure

    games = game_folder(save_games, remotes, ending)
    request = diplomacy_request(
        games_per_country, ending, press=rules, seed=seed, temperature=temperature, stopping=stopping, games=games
    )
    if stopping is not None:
        stopping.found(request.played.measures)
    place = place_for((*names, *met), remotes, 7 * games_per_country * len(names), processes, ray_address)
    try:
        with bars() as add_bar:
            measured = measure(request, names, anchors, place, add_bar)
    finally:  # print the cost of calls after a failure too
        for line in remotes.report():
            typer.echo(line)
    rows, differences = evaluation_rows(request, names, measured), difference_rows(request, names, measured)
    for row in rows:
        typer.echo(evaluation_text(row, request.played))
    for row in differences:
        typer.echo(difference_text(row, request.played))
    counters = remotes.stats()
    from cluster.runs.provenance import commit

    given = {
        "--against": against,
        "--games-per-country": games_per_country,
        "--until": until,
        "--seed": seed,
        "--temperature": temperature,
        "--press-rounds": press_rounds,
        "--stop-within": stop_within,
        "--stop-when-clear": stop_when_clear,
        "--config": config,
    }
    document = {
        "candidate": names[0],
        "players": names,
        "seed": seed,
        "temperature": temperature,  # None: each player's own
        "command": command_line("evaluate", names, given, rules, public_press),
        "commit": commit(),
        "evaluations": rows,
        "differences": differences,
    }
    write_json(json_out, {**document, **({"remotes": counters} if counters else {})})
    write_csv(csv_out, request.played, rows, list(request.facts))
