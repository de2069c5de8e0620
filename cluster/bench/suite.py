"""All benchmarks, one table, one JSON file."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cluster.bench.figure import Figure, MissingRequirementError
from cluster.errors import RunError
from cluster.runs.folder import check_writable
from cluster.runs.provenance import commit, provenance

# The name on the command line, and the module below ``cluster.bench`` that measures it.
SUITE = {
    "game_loop": "system.game_loop",
    "bots": "system.bots",
    "playouts": "system.playouts",
    "evaluation": "system.evaluation",
    "press": "system.press",
    "engine": "inference.torch_engine",
    "vllm": "inference.vllm_engine",
    "learner": "learner.step",
    "head": "learner.head",
    "trl_step": "learner.trl_step",
    "learner_memory": "learner.shared_memory",
    "gpu": "learner.gpu",
    "replay": "system.replay",
    "load": "system.load",
    "weights": "system.weights",
    "broadcast": "broadcast.nodes",
}
# Whole trainings, minutes a round, only when asked for.
LONG = {"overlap": "system.overlap", "trl_training": "system.trl_training"}


def run_suite(only: Sequence[str], rounds: int, out: Path) -> None:
    """Run the benchmarks one after another, print their figures in one table and write them to ``out`` as JSON.

    ``only`` has names, or several with commas between them; none: all but the long ones. A benchmark that needs a
    package that is not installed is skipped, with a line that names the package.

    Raises RunError if there is no benchmark of that name, or the file cannot be written.
    """
    named = _names(only)
    check_writable(out)
    modules = {**SUITE, **LONG}
    console = Console()
    figures: list[tuple[str, Figure]] = []
    skipped: dict[str, str] = {}
    for name in named or SUITE:
        console.print(f"[dim]measuring {name} ...[/dim]")
        try:
            module = importlib.import_module(f"cluster.bench.{modules[name]}")
            figures += [(name, figure) for figure in module.run(rounds)]
        except MissingRequirementError as error:
            skipped[name] = str(error)
            console.print(f"{name} skipped: {error}", markup=False)
    table = Table("figure", "ours", "yardstick", "times better", "unit", "against")
    for _, figure in figures:
        numbers = f"{figure.ours:,.4g}", f"{figure.yardstick:,.4g}", f"{figure.ratio:.2f}"
        table.add_row(figure.name, *numbers, figure.unit, figure.yardstick_name)
    console.print(table)
    document = {
        "commit": commit(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": "entente bench" + (f" --only {','.join(named)}" if named else "") + f" --rounds {rounds}",
        "machine": provenance(),
        "figures": [figure.document(name) for name, figure in figures],
        "skipped": skipped,
    }
    out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    console.print(f"written to {out}")


def _names(only: Sequence[str]) -> list[str]:
    """Every named benchmark, once, in the given order."""
    named = list(dict.fromkeys(name.strip() for text in only for name in text.split(",") if name.strip()))
    for name in named:
        if name not in (*SUITE, *LONG):
            raise RunError(f"no benchmark is called {name!r}; there are {', '.join((*SUITE, *LONG))}")
    return named
