"""The ``entente`` command. Heavy packages are imported inside the commands, so that ``--help`` answers at once."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.exceptions import TyperException

from cluster.cli.monitoring import EXAMPLES, monitoring
from cluster.cli.population import population_app
from cluster.drill.cli import drill
from grpo_core.errors import EntenteError

app = typer.Typer(
    help="Train language-model policies to play full seven-power Diplomacy by country-grouped GRPO.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
buffer_app = typer.Typer(help="Look into the replay buffer.", no_args_is_help=True)
app.add_typer(buffer_app, name="buffer")
groups_app = typer.Typer(help="Look into how a run grouped what it learned from.", no_args_is_help=True)
app.add_typer(groups_app, name="groups")
app.add_typer(population_app, name="population")
app.command(
    epilog="Examples: `entente drill --json drill.json`, `entente drill --faults 4 --only learner --only server`"
)(drill)
app.command(epilog=EXAMPLES)(monitoring)

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one key of the config; repeatable."),
]
RemotesConfig = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="A config whose [opponents.remotes] describes players remote:NAME."),
]


@app.command(epilog="Example: `entente train laptop --set learner.learning_rate=1e-4 --run-dir runs/first`")
def train(
    config: Annotated[
        str | None,
        typer.Argument(help="A TOML file, or a shipped config: laptop, smoke, gpu, cluster. Not needed with --resume."),
    ] = None,
    overrides: Overrides = None,
    run_dir: Annotated[Path | None, typer.Option(help="Folder of the run.", show_default="runs/<run.name>")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --run-dir.")] = False,
    start_or_resume: Annotated[
        bool,
        typer.Option(
            "--start-or-resume",
            help="Go on with the run in --run-dir if one is there, else start it: for a job that is submitted again "
            "with the same words. CONFIG and --set count in both cases.",
        ),
    ] = False,
    keys: Annotated[bool, typer.Option("--keys", help="List every config key with its default, and stop.")] = False,
) -> None:
    """Train a policy on whole games, from a config."""
    if keys:
        from cluster.configs.reference import config_reference
        from cluster.configs.schema import Config

        typer.echo(config_reference(Config))
        return
    from cluster.runs.ray_job import short_stop
    from cluster.runs.request import requested_run
    from cluster.runtime.ray_session import stop_at_sigterm

    request = requested_run(config, overrides or (), run_dir, resume=resume, start_or_resume=start_or_resume)
    if request.config.run.ray_address is None:
        # A Ray of our own asks everybody for a token; said here because Ray reads it when it is imported.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    try:
        stop_at_sigterm()
        from cluster.driver.training import SAVE_TIMEOUT_S
        from cluster.driver.training import train as run
        from cluster.runs.recovery import keep_training

        if warning := short_stop(request.config, SAVE_TIMEOUT_S):
            typer.echo(warning, err=True)
        keep_training(request.config, request.run_dir, resume=request.resume, train=run, say=_say)
    except KeyboardInterrupt:
        again = "the same command" if start_or_resume else f"entente train --resume --run-dir {request.run_dir}"
        _stop(f"stopped; go on with: {again}", 130)
    typer.echo(f"done: {request.run_dir / 'summary.json'} and {request.run_dir / 'report.html'}")


@app.command(
    epilog="Examples: `entente imitate --games 400 --out models/dumbbot`, then "
    "`entente train laptop --set policy.path=models/dumbbot`"
)
def imitate(
    out: Annotated[Path, typer.Option(help="New folder for the policy, in Hugging Face layout.")],
    config: Annotated[
        str, typer.Argument(help="A TOML file, or a shipped config, whose [policy] imitates as its [imitation] says.")
    ] = "laptop",
    games: Annotated[
        int | None,
        typer.Option(min=0, help="Games of seven teachers to play and imitate.", show_default="the config's, or 400"),
    ] = None,
    teacher: Annotated[
        str | None, typer.Option(help="The bot that is imitated.", show_default="the config's, dumbbot")
    ] = None,
    saved_games: Annotated[
        Path | None, typer.Option(help="Folder of saved games (*.json) to imitate as well; --games 0: alone.")
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Train a policy on games that bots play, or on saved games: a warm start for training, in minutes."""
    from cluster.configs.loader import load_config
    from cluster.imitation.launcher import imitate as imitate_games
    from cluster.runs.progress_bars import stages

    options = {"games": games, "teacher": teacher, "saved_games": None if saved_games is None else str(saved_games)}
    said = [f"imitation.{key}={json.dumps(value)}" for key, value in options.items() if value is not None]
    settings = load_config(config, [*said, *(overrides or ())])
    if games is None and not settings.imitation.games:
        settings = load_config(config, ["imitation.games=400", *said, *(overrides or ())])
    with stages() as stage:
        report = imitate_games(settings, out, stage)
    typer.echo(
        f"{report.decisions:,} decisions of {report.games + report.saved_games} games: {report.nats_before:.3f} -> "
        f"{report.nats_after[-1]:.3f} nats a token in games not learned from; written to {out}"
    )


@app.command(
    epilog="Example: `entente play --seat FRANCE=dumbbot --seat TURKEY=runs/demo --out game.json --html game.html`"
)
def play(
    out: Annotated[Path, typer.Option(help="Where to save the game, in the engine's own format.")],
    seat: Annotated[
        list[str] | None,
        typer.Option(
            metavar="POWER=PLAYER", help="A bot, checkpoint or run folder, or remote:NAME, for one power; repeatable."
        ),
    ] = None,
    default: Annotated[str, typer.Option(help="Who plays the other powers.")] = "random",
    until: Annotated[int, typer.Option(min=1901, max=1999, help="Last year played to its end.")] = 1910,
    seed: Annotated[int, typer.Option(min=0, help="The same seed plays the same game.")] = 7,
    html: Annotated[Path | None, typer.Option(help="Also a page that shows it phase by phase.")] = None,
    config: RemotesConfig = None,
) -> None:
    """Play one game and save it."""
    from cluster.evaluation.play import play as play_one
    from cluster.evaluation.players import parse_seats, remotes_of
    from cluster.runs.folder import check_writable

    seats = parse_seats(seat or [], default)
    check_writable(out)
    if html is not None:
        check_writable(html)
    remotes = remotes_of(config)
    try:
        record = play_one(seats, until, seed, out, remotes)
    finally:  # what calls cost is worth knowing also where one failed
        _show_lines(remotes.report())
    outcome = record.outcome
    typer.echo(f"{outcome.kind.replace('_', ' ')} after {outcome.phases} phases, {outcome.final_year}; saved to {out}")
    for power, centers in sorted(outcome.centers.items(), key=lambda item: (-item[1], item[0])):
        typer.echo(
            f"  {power:<8} {seats[power]:<12} {centers:>2} centres{'  wins' if power in outcome.winners else ''}"
        )
    if html is not None:
        from services.reports.game_viewer.game_viewer import write_viewer

        write_viewer(out, html, seats=seats)
        typer.echo(f"phase by phase: {html}")


@app.command(
    epilog="Example: `entente evaluate runs/demo --against random,dumbbot --games-per-country 10 --until 1905`"
)
def evaluate(
    candidate: Annotated[str, typer.Argument(help="A checkpoint or run folder, a bot, or remote:NAME.")],
    against: Annotated[
        str, typer.Option(help="Bots or remote:NAMEs, comma-separated; each fills the six other seats in turn.")
    ] = "random",
    games_per_country: Annotated[int, typer.Option(min=1, help="Games as each of the seven powers.")] = 10,
    until: Annotated[int, typer.Option(min=1901, max=1999, help="Last year of a game.")] = 1910,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives every candidate the same games.")] = 0,
    temperature: Annotated[float, typer.Option(min=0, help="Of a checkpoint's sampling; 0 is greedy.")] = 1.0,
    json_out: Annotated[Path | None, typer.Option("--json", help="Also write the rows as JSON.")] = None,
    config: RemotesConfig = None,
) -> None:
    """Measure a player against fixed anchors, all seven countries alike, with 95 % intervals."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from cluster.errors import RunError
    from cluster.evaluation.evaluate import evaluate as measure
    from cluster.evaluation.players import remotes_of
    from cluster.runs.folder import check_writable

    if json_out is not None:
        check_writable(json_out)
    names = list(dict.fromkeys(name.strip() for name in against.split(",") if name.strip()))
    if not names:
        raise RunError("--against names nobody; give bots, e.g. --against random,dumbbot")
    remotes = remotes_of(config)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
            bar = bars.add_task("games")
            rows = measure(
                candidate,
                names,
                games_per_country=games_per_country,
                until_year=until,
                seed=seed,
                temperature=temperature,
                remotes=remotes,
                progress=lambda name, done, total: bars.update(
                    bar, description=f"against six {name}", completed=done, total=total
                ),
            )
    finally:
        _show_lines(remotes.report())
    for row in rows:
        typer.echo(_evaluation_text(row))
    if json_out is not None:
        document: dict[str, Any] = {"candidate": candidate, "evaluations": rows}
        if counters := remotes.stats():
            document["remotes"] = counters
        json_out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        typer.echo(f"written to {json_out}")


@app.command(epilog="Examples: `entente doctor laptop`; `entente doctor --run runs/demo`, also while it trains")
def doctor(
    config: Annotated[str | None, typer.Argument(help="Also check what this config asks for.")] = None,
    overrides: Overrides = None,
    run: Annotated[Path | None, typer.Option(help="Look at the run in this folder instead.")] = None,
    run_dir: Annotated[
        Path | None, typer.Option(help="Folder that the run is to have, as entente train will be told.")
    ] = None,
) -> None:
    """Check this machine, and what a config asks of it, or a run's health; says what to do about each fault."""
    from cluster.configs.loader import load_config

    if run is not None and config is None and run_dir is None:
        from cluster.diagnostics.run_health import examine_run

        findings = examine_run(run)
    elif run is not None:
        raise typer.BadParameter("--run looks at a run, a config and --run-dir at what is to be one: name one of them")
    else:
        from cluster.diagnostics.doctor import examine

        findings = examine(load_config(config, overrides or ()) if config else None, run_dir)
    marks = {"ok": "ok  ", "warn": "warn", "fault": "FAIL"}
    for finding in findings:
        typer.echo(f"{marks[finding.level]}  {finding.subject}: {finding.text}")
    if any(finding.level == "fault" for finding in findings):
        raise typer.Exit(2)


@app.command(epilog="Example: `entente bench --only engine --json bench.json`")
def bench(
    only: Annotated[
        str | None,
        typer.Option(
            help="One of: game_loop, bots, engine, vllm, learner, head, trl_step, gpu, replay, load, weights; overlap, "
            "which trains for ten minutes a round, is measured only when it is named."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Alternating rounds of each measurement; the median counts.")] = 5,
    json_out: Annotated[Path, typer.Option("--json", help="Where the figures go as JSON.")] = Path("bench.json"),
) -> None:
    """Measure every figure beside its yardstick, in the same run."""
    from cluster.bench.suite import run_suite

    run_suite(only, rounds, json_out)


@app.command(
    epilog="Example: `entente report runs/demo` or `entente report runs/demo/games/trained-random/FRANCE.json`"
)
def report(
    what: Annotated[Path, typer.Argument(help="A run's folder, or a saved game.")],
) -> None:
    """Write a run's report.html anew, or the page of a saved game beside it."""
    from services.reports.game_viewer.game_viewer import write_viewer
    from services.reports.run_report.run_report import write_report

    if what.suffix == ".json":
        page = what.with_suffix(".html")
        write_viewer(what, page)
        typer.echo(f"written to {page}")
    else:
        from cluster.configs.schema import Config

        typer.echo(f"written to {write_report(what, Config().model_dump(mode='json'))}")


@buffer_app.command("inspect", epilog="Example: `entente buffer inspect runs/demo`")
def buffer_inspect(run_dir: Annotated[Path, typer.Argument(help="The run's folder.")]) -> None:
    """What waits in a run's replay buffer, is delivered, acknowledged or set aside."""
    from cluster.cli.buffer import inspect

    for name, value in inspect(run_dir).items():
        typer.echo(f"{name:<24} {value:,.0f}")


@groups_app.command("audit", epilog="Example: `entente groups audit runs/demo --json audit.json`")
def groups_audit(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    gradients: Annotated[
        bool, typer.Option(help="Also judge the last batch in every way and measure its gradient's bias and noise.")
    ] = True,
    turns: Annotated[
        int, typer.Option(min=1, help="Most turns to take gradients of (whole line-up blocks); 25 ms each.")
    ] = 4000,
    json_out: Annotated[Path | None, typer.Option("--json", help="Also write everything as JSON.")] = None,
) -> None:
    """How samples were judged in each update, what every key would explain, and how noisy each one's gradient is."""
    from rich.console import Console

    from cluster.cli.audit_tables import as_json, show, show_gradients
    from cluster.diagnostics.groups_audit import audit_groups, read_records
    from cluster.runs.folder import check_writable

    if json_out is not None:
        check_writable(json_out)
    console = Console()
    audit = audit_groups(str(run_dir), read_records(run_dir))
    show(audit, console)
    found = None
    if gradients:
        from cluster.diagnostics.gradient_audit import NoGradientsError, audit_gradients
        from cluster.runs.progress_bars import stages

        try:
            with stages() as stage:
                found = audit_gradients(run_dir, audit.best_undeclared, stage, max_turns=turns)
            show_gradients(found, console)
        except NoGradientsError as error:
            console.print(f"gradients: left out: {error}", markup=False, highlight=False)
    if json_out is not None:
        json_out.write_text(as_json(audit, found), encoding="utf-8")
        typer.echo(f"written to {json_out}")


@groups_app.command(
    "study", epilog="Example: `entente groups study runs/demo/checkpoints/10 --batches 48 --html study.html`"
)
def groups_study(
    checkpoint: Annotated[
        Path, typer.Argument(help="Checkpoint or run folder of a partly trained policy, which plays.")
    ],
    batches: Annotated[int, typer.Option(min=4, help="Independent batches of 112 episodes.")] = 24,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the positions and games.")] = 0,
    json_out: Annotated[Path, typer.Option("--json", help="Where the figures go.")] = Path("study.json"),
    html: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("study.html"),
) -> None:
    """What each way of grouping does to the policy gradient: bias, noise, signs and effective samples.

    Plays one set of seven-power games (continuations of saved positions) with the run's own game length, rewards and
    discount, and groups the same turns in every way. About half a minute a batch of games to 1905.
    """
    from rich.console import Console

    from cluster.diagnostics.grouping_study import measure_grouping
    from cluster.diagnostics.grouping_study_page import show, write_study_page
    from cluster.runs.folder import check_writable
    from cluster.runs.progress_bars import stages

    check_writable(json_out)
    check_writable(html)
    with stages() as stage:
        study = measure_grouping(checkpoint, batches, seed, stage)
    json_out.write_text(json.dumps(study, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    show(study, Console())
    write_study_page(study, html)
    typer.echo(f"written to {json_out} and {html}")


def main(prefix: Sequence[str] = ()) -> NoReturn:
    """Run the command line; an ``EntenteError`` is one line on stderr (exit codes: ``cluster.errors``)."""
    try:
        code: Any = app(args=[*prefix, *sys.argv[1:]], standalone_mode=False, prog_name="entente")
    except typer.Exit as wanted:
        sys.exit(wanted.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        _stop("stopped", 130)
    except TyperException as error:
        message = " ".join(str(error.format_message()).split()) if hasattr(error, "format_message") else str(error)
        if type(error).__name__ == "NoArgsIsHelpError":  # the help is on the screen already
            sys.exit(2)
        _stop(f"error: {message} (entente --help shows the commands)", 2)
    except EntenteError as error:
        _stop(f"error: {' '.join(str(error).split())}", error.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def _stop(text: str, code: int) -> NoReturn:
    print(text, file=sys.stderr)
    sys.exit(code)


def _say(text: str) -> None:
    typer.echo(f"{time.strftime('%H:%M:%S')} {text}")


def _show_lines(lines: Sequence[str]) -> None:
    for line in lines:
        typer.echo(line)


def _evaluation_text(row: dict[str, Any]) -> str:
    def cell(values: dict[str, Any]) -> str:
        interval = values["mean_centers_ci95"]
        bounds = f"[{interval[0]:5.2f}, {interval[1]:5.2f}]" if interval else " " * 14
        return (
            f"{values['mean_centers']:5.2f} {bounds}  {values['sum_of_squares']:.3f}  {values['survival_rate']:5.0%}"
            f"  {values['top_rate']:5.0%}  {values['win_rate']:5.0%}"
        )

    lines = [
        f"{row['checkpoint']} against six {row['against']}, {row['games']} games to {row['until_year']}",
        f"  {'':<9}{'centres':<22}squares  alive   leads  solos",
        *(f"  {power:<8} {cell(values)}" for power, values in row["by_country"].items()),
        f"  {'all':<8} {cell(row)}",
    ]
    return "\n".join(lines)
