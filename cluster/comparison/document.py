"""``results.json`` and ``compare.html`` of a comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster.comparison.comparison import Comparison, all_rows
from cluster.comparison.methods import METHODS
from cluster.comparison.summary import summarised
from cluster.runs.provenance import provenance
from grpo_core.checkpoints.atomic_write import write_atomically
from services.environments.tensor_tasks.catalogue import make_task
from services.environments.tensor_tasks.open_spiel.exploitability import PASSES, regret_minimised
from services.environments.tensor_tasks.open_spiel.spiel_task import SpielTask
from services.reports.methods_page.methods_page import UNITS, methods_page
from services.reports.page import write_page


def write_results(found: Comparison, out: Path, command: str) -> Iterator[str]:
    """Write both files; yield lines that say what was found and where it lies."""
    tasks = {name: make_task(name) for name in dict.fromkeys(each.cell.task for each in found.finished)}
    machine = provenance()
    document: dict[str, Any] = {
        "command": command,
        "commit": ", ".join(sorted({each.commit for each in found.finished})),
        "machine": f"{machine['cpus']} cores, {machine['processor']}",
        "titles": {name: method.title for name, method in METHODS.items()},
        "methods": {name: method.does for name, method in METHODS.items()},
        "missing": list(found.missing),
        "failed": list(found.failed),
        "yardsticks": {
            name: {"passes": PASSES, "exploitability": regret_minimised(task), "players": len(task.seats)}
            for name, task in tasks.items()
            if isinstance(task, SpielTask)
        },
        "summary": summarised(found.finished, tasks),
        "rows": all_rows(found.finished),
    }
    write_atomically(out / "results.json", json.dumps(document, indent=1, allow_nan=False).encode())
    write_page(out / "compare.html", methods_page(document))
    yield from _lines(document)
    yield f"written to {out / 'results.json'} and {out / 'compare.html'}"


def _lines(document: dict[str, Any]) -> Iterator[str]:
    """A block of lines for each task, the best method first."""
    rows = document["summary"]["by_task"]
    for task in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == task]
        game = own[0].get("exploitability") is not None
        name = "exploitability" if game else "return"
        own.sort(key=lambda row: row[name] if game else -row[name])
        yield f"{task}: {name} after {own[0]['budget']:,} {UNITS[own[0]['unit']]}, {own[0]['seeds']} seeds"
        for row in own:
            interval = row[f"{name}_ci95"]
            digits = 3 if game else 1
            between = "" if interval is None else f" [{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"
            yield f"  {document['titles'][row['method']]:36}{row[name]:.{digits}f}{between}"
