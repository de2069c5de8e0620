"""``entente drill``. Heavy packages are imported inside the command, so that ``--help`` is fast."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer


def drill(
    faults: Annotated[int, typer.Option(min=1, max=10_000, help="Number of faults, all kinds in turn.")] = 30,
    seed: Annotated[int, typer.Option(min=0, max=1 << 53, help="Seed of the moments, the order and the victims.")] = 0,
    run_dir: Annotated[
        Path | None, typer.Option(help="Folder of the run, which is kept.", show_default="a temporary one")
    ] = None,
    engine: Annotated[
        Literal["torch", "vllm"], typer.Option(help="Engine of the rollout actor; vllm: in a process of its own.")
    ] = "torch",
    server: Annotated[
        Literal["embedded", "external"],
        typer.Option(help="Replay server; external: one that the drill starts, and that is away for a while."),
    ] = "embedded",
    only: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Only faults of this kind; repeatable.")
    ] = None,
    compare: Annotated[
        bool, typer.Option(help="Also train as long without faults, and compare the lengths of the games.")
    ] = True,
    config: Annotated[
        str | None,
        typer.Option(help="What is trained: a TOML file or a shipped config.", show_default="smoke, games to 1905"),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, max=64, help="Processes of the learner.", show_default="as configured")
    ] = None,
    servers: Annotated[
        int, typer.Option(min=1, max=8, help="Replay servers, which share the episodes by country.")
    ] = 1,
    json_out: Annotated[Path | None, typer.Option("--json", help="Also write everything as JSON.")] = None,
) -> None:
    """Cause faults in a short training, and check that it recovers from each and loses nothing.

    It kills and stops rollout actors, learner, replay server and driver, ends the run as job managers do, fills the
    server, damages episodes and blocks, writes foreign values and leaves half a checkpoint. It touches only processes
    that it started, on this machine. About half a minute a fault.
    """
    from cluster.drill.record import Record
    from cluster.drill.runner import Plan
    from cluster.drill.runner import drill as carry_out
    from cluster.drill.tables import shown
    from cluster.drill.training_process import DrillFailedError
    from cluster.runs.folder import check_writable
    from cluster.runtime.orphan_reaper import guarded
    from cluster.runtime.stop_signals import stop_at_signals

    if json_out is not None:
        check_writable(json_out)
    stop_at_signals()
    plan = Plan(
        faults,
        seed,
        run_dir or Path(tempfile.gettempdir()),
        engine,
        server,
        tuple(only or ()),
        compare,
        config,
        processes,
        servers,
    )
    plan.check()
    if run_dir is None:
        plan = replace(plan, run_dir=Path(tempfile.mkdtemp(prefix="entente-drill-")))
    record = Record(engine, server, seed, faults)
    failure: DrillFailedError | None = None
    with guarded(), shown(record) as notify:
        try:
            carry_out(plan, record, notify)
        except DrillFailedError as error:
            failure = error
    if json_out is not None:
        kinds = "".join(f" --only {name}" for name in plan.only)
        kinds += "" if compare else " --no-compare"
        kinds += "" if config is None else f" --config {config}"
        kinds += "" if processes is None else f" --processes {processes}"
        kinds += "" if servers == 1 else f" --servers {servers}"
        command = f"entente drill --faults {faults} --seed {seed} --engine {engine} --server {server}{kinds}"
        json_out.write_text(json.dumps(record.document(command), indent=1) + "\n", encoding="utf-8")
        typer.echo(f"written to {json_out}")
    if failure is not None:
        typer.echo(f"drill failed: {failure} (the run is in {plan.run_dir})", err=True)
        raise typer.Exit(failure.exit_code)
    if run_dir is None:
        shutil.rmtree(plan.run_dir, ignore_errors=True)
    typer.echo(f"{len(record.recovered)} faults, and every check passed")
