"""``entente ladder``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cluster.api.arguments import MOST_GAMES, check_ending
from cluster.cli.evaluate.options import (
    Press,
    PressRounds,
    Processes,
    PublicPress,
    RayAddress,
    Seed,
    Temperature,
    Until,
    bars,
    command_line,
    place_for,
    say_warning,
)
from cluster.cli.options import STDOUT, ChatPlayersConfig, JsonOrStdout, check_output, comma_separated, write_json
from cluster.errors import RunError

commands = typer.Typer()
BOTS = ("hold", "random", "greedy", "dumbbot")


@commands.command(
    epilog="Examples: `entente ladder`; `entente ladder runs/demo greedy dumbbot random --games-per-country 20 "
    "--html ladder.html`"
)
def ladder(
    players: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PLAYER...]",
            help="Checkpoint or run folders, champion, bots, RUN:MEMBERs or remote:NAMEs.",
            show_default=" ".join(BOTS),
        ),
    ] = None,
    against: Annotated[
        str, typer.Option(help="A bot, champion, folder or remote:NAME; each player meets six of it.")
    ] = "dumbbot",
    games_per_country: Annotated[
        int, typer.Option(min=1, max=MOST_GAMES, help="Games of each player as each of the seven powers.")
    ] = 20,
    mixed_games: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MOST_GAMES,
            help="Games as each of the seven powers at tables that all players share, for the ratings; 0: none.",
            show_default="as --games-per-country",
        ),
    ] = None,
    until: Until = "end",
    seed: Seed = 0,
    temperature: Temperature = None,
    press: Press = False,
    press_rounds: PressRounds = None,
    public_press: PublicPress = None,
    processes: Processes = None,
    ray_address: RayAddress = None,
    json_out: JsonOrStdout = None,
    csv_out: Annotated[
        Path | None,
        typer.Option("--csv", callback=check_output, help="Also write a line for each player and published figure."),
    ] = None,
    html_out: Annotated[
        Path | None, typer.Option("--html", callback=check_output, help="Also write a page that needs no network.")
    ] = None,
    config: ChatPlayersConfig = None,
) -> None:
    """Rank players, with each published definition beside ours.

    Each player is one against six of the same anchor, in the same whole games, as every country equally often. All of
    them also meet at mixed tables, where finishing places, also those below a solo, make ratings on the Elo scale;
    random, if it plays, is at 1000. Our figures have 95 % intervals, and neighbours that chance alone may tell apart
    are named. Published figures stand beside ours in the columns whose definitions agree; they are of games without
    press, so with --press there are none.
    """
    from cluster.evaluation.players.opening import agreeing_world, chat_players, check_player
    from cluster.evaluation.players.press_rules import chosen_press

    names, anchors, ending = (
        list(dict.fromkeys(players or BOTS)),
        comma_separated(against),
        check_ending("--until", until),
    )
    if len(anchors) != 1:
        raise RunError(f"--against names the one player that fills the six other seats, not {len(anchors)}")
    (anchor,) = anchors
    tables = games_per_country if mixed_games is None else mixed_games
    from cluster.evaluation.ladder.columns import columns
    from cluster.evaluation.ladder.ladder import check_players, measure_ladder

    check_players(names, tables)
    rules, warning = chosen_press((*names, anchor), press=press, rounds=press_rounds, public=public_press)
    remotes = chat_players(config, agreeing_world(draw_votes=False, press=rules))
    for name in (*names, anchor):
        check_player(name, remotes)
    say_warning(warning)
    from rich.console import Console

    from cluster.cli.evaluate.ladder_tables import print_ladder
    from cluster.evaluation.evaluate import diplomacy_request
    from cluster.evaluation.ladder.document import ladder_csv, ladder_document
    from cluster.runs.provenance import commit

    request = diplomacy_request(games_per_country, ending, press=rules, seed=seed, temperature=temperature)
    games = 7 * (games_per_country + tables) * len(names)
    place = place_for((*names, anchor), remotes, games, processes, ray_address)
    alone = json_out == STDOUT  # JSON is all that the standard output gets
    try:
        with bars() as add_bar:
            found = measure_ladder(request, ending, names, anchor, tables, place, add_bar)
    finally:  # print the cost of calls after a failure too
        for line in remotes.report():
            typer.echo(line, err=alone)
    shown = columns(request.played.measures)
    given = {
        "--against": anchor,
        "--games-per-country": games_per_country,
        "--mixed-games": tables,
        "--until": until,
        "--seed": seed,
        "--temperature": temperature,
        "--press-rounds": press_rounds,
        "--config": config,
    }
    words = command_line("ladder", names, given, rules, public_press)
    document = ladder_document(found, shown, request.facts, seed=seed, command=words, commit=commit())
    counters = remotes.stats()
    write_json(json_out, {**document, **({"remotes": counters} if counters else {})})
    if csv_out is not None:
        from grpo_core.checkpoints.atomic_write import write_atomically

        write_atomically(csv_out, ladder_csv(found, shown, list(request.facts)).encode())
        typer.echo(f"written to {csv_out}", err=alone)
    if html_out is not None:
        from services.reports.ladder_page.ladder_page import ladder_page
        from services.reports.page import write_page

        typer.echo(f"written to {write_page(html_out, ladder_page(document))}", err=alone)
    # Last, because its reader may end early: the files are written by then.
    print_ladder(found, shown, request.played, Console(stderr=alone))
