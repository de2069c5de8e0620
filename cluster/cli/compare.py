"""``entente compare``."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from cluster.cli.options import comma_separated
from cluster.errors import RunError

commands = typer.Typer()


@commands.command(
    epilog="Examples: `entente compare smoke --out runs/smoke`; `entente compare study --out runs/study --tasks "
    "cartpole,leduc_poker --seeds 3`, and after a stop the same with --resume; `entente compare study --out runs/long "
    "--methods grpo_time --tasks pong --steps 1000000 --learning-rate 1e-3`; `entente compare sensitivity --out "
    "runs/settings --methods grpo_time --tasks cartpole --trials 100`"
)
def compare(
    plan: Annotated[
        str,
        typer.Argument(
            metavar="smoke|study|sensitivity",
            help="smoke: minutes, to see that all works; study: hours; sensitivity: one method on one task, with "
            "settings from their whole ranges.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for results.json, compare.html and what is done so far.")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a comparison that was stopped, perhaps with more --seeds.")
    ] = False,
    methods: Annotated[str, typer.Option(help="Only these, comma-separated.", show_default="all")] = "",
    tasks: Annotated[str, typer.Option(help="Only these, comma-separated.", show_default="all")] = "",
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Runs of each method on each task.", show_default="the plan's")
    ] = None,
    first_seed: Annotated[
        int,
        typer.Option(
            min=0,
            max=1_000_000,
            help="Seed of the first run; the next ones follow. So settings chosen on some seeds can be confirmed on "
            "others.",
        ),
    ] = 0,
    processes: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Runs at a time.", show_default="one for each core")
    ] = None,
    trials: Annotated[int, typer.Option(min=10, max=10_000, help="Trials of a study of settings.")] = 60,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How long each run is, in steps; Diplomacy's in games, except in trials. The methods' learning rates "
            "were sought for the study's own length.",
            show_default="the plan's; 50,000 for a trial",
        ),
    ] = None,
    episodes_per_update: Annotated[
        int | None,
        typer.Option(
            min=4, max=100_000, help="Episodes of each update of the core's methods.", show_default="the plan's"
        ),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(min=1e-7, max=1.0, help="Learning rate of all methods.", show_default="what was sought for each"),
    ] = None,
) -> None:
    """Compare ways to learn: GRPO with several groupings, REINFORCE and PPO, RLlib's among them.

    Small networks learn control problems and games of OpenSpiel in equal numbers of steps, and Diplomacy in equal
    numbers of games, over several seeds. Tasks whose packages are not installed are left out, with a line that says so.
    What is done is kept: after a stop or a crash --resume runs the rest.

    A study of settings says how much each matters, shows the surface over the two that matter most, and recommends
    settings on a broad plateau rather than those of the best single trial. Its method is grpo_time and its task
    cartpole unless --methods and --tasks name others.
    """
    import os

    count = processes or len(os.sched_getaffinity(0))
    if plan == "sensitivity":
        if seeds is not None or first_seed:
            raise RunError("a study of settings has --trials, each with a seed of its own, and no --seeds")
        if episodes_per_update is not None or learning_rate is not None:
            raise RunError("a study of settings varies the episodes of an update and the learning rate itself")
        _settings(out, _names(methods), _names(tasks), trials, steps or _TRIAL_STEPS, count, resume=resume)
        return

    from cluster.comparison.plans import PLANS

    if plan not in PLANS:
        raise RunError(f"there is no comparison {plan!r}; it is one of {', '.join(PLANS)}, sensitivity")
    chosen = PLANS[plan].only(
        _names(methods), _names(tasks), seeds, steps, episodes_per_update, learning_rate, first_seed
    )
    from cluster.comparison.comparison import compare as run
    from cluster.comparison.document import write_results
    from cluster.runs.progress_bars import progress_bars

    with progress_bars() as add_bar:
        advances = []
        found = run(
            chosen, out, resume=resume, processes=count,
            notice=lambda text: typer.echo(text, err=True),
            begin=lambda count: advances.append(add_bar(f"runs of {plan}", count)),
            advance=lambda done: advances[0](done),
        )  # fmt: skip
    for line in found.missing:
        typer.echo(f"left out: {line}", err=True)
    words = ["entente", "compare", plan, "--out", str(out)]
    given: dict[str, object] = {
        "methods": methods, "tasks": tasks, "seeds": seeds, "first-seed": first_seed, "steps": steps,
        "episodes-per-update": episodes_per_update, "learning-rate": learning_rate,
    }  # fmt: skip
    for name, value in given.items():
        words += [f"--{name}", str(value)] if value else []
    if found.finished:
        for line in write_results(found, out, shlex.join(words)):
            typer.echo(line)
    if found.failed:
        more = f", and {len(found.failed) - 1} more" if len(found.failed) > 1 else ""
        raise RunError(f"a run failed: {found.failed[0]}{more}; --resume runs what failed again")


_TRIAL_STEPS = 50_000
_STEPS_APART = 5  # measurements of a trial


def _settings(
    out: Path,
    methods: tuple[str, ...],
    tasks: tuple[str, ...],
    trials: int,
    steps: int,
    processes: int,
    *,
    resume: bool,
) -> None:
    from cluster.comparison.methods import METHODS
    from cluster.comparison.sensitivity.document import write_study
    from cluster.comparison.sensitivity.search import search
    from cluster.comparison.sensitivity.trials import Study
    from cluster.runs.progress_bars import progress_bars
    from services.environments.tensor_tasks.catalogue import make_task

    if find_spec("optuna") is None:
        raise RunError("a study of settings needs Optuna, which is not installed; pip install 'entente[sensitivity]'")
    if len(methods) > 1 or len(tasks) > 1:
        raise RunError("a study of settings is of one method on one task: name one of each")
    method, task = (*methods, "grpo_time")[0], (*tasks, "cartpole")[0]
    if method not in METHODS or METHODS[method].kind == "rllib":
        own = ", ".join(name for name, each in METHODS.items() if each.kind != "rllib")
        raise RunError(f"there are no ranges for the settings of {method!r}; there are for {own}")
    make_task(task).make().close()  # an error of a missing package comes before Ray starts
    study = Study(method, task, trials, steps, _STEPS_APART)
    with progress_bars() as add_bar:
        advances = []
        found = search(
            study, out, resume=resume, processes=processes, notice=lambda text: typer.echo(text, err=True),
            begin=lambda count: advances.append(add_bar(f"trials of {method} on {task}", count)),
            advance=lambda done: advances[0](done),
        )  # fmt: skip
    words = ["entente", "compare", "sensitivity", "--out", str(out), "--methods", method, "--tasks", task]
    words += ["--trials", str(trials), "--steps", str(steps)]
    for line in write_study(study, found, out, shlex.join(words)):
        typer.echo(line)


def _names(text: str) -> tuple[str, ...]:
    # A name such as kuhn_poker(players=3) has no comma.
    return tuple(dict.fromkeys(comma_separated(text))) if text else ()
