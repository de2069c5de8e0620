"""A folder of ``entente compare`` as runs of the page: one for each method and task that left traces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster.comparison.methods import METHODS
from cluster.comparison.sampling import ROLE_NAME
from cluster.errors import RunError
from cluster.explore.details import Details, detailed_updates, first_of_each
from cluster.explore.dynamics import dynamics
from cluster.explore.roles import roles_of
from cluster.explore.token_text import NUMBERS
from cluster.runs.progress_bars import AddBar
from grpo_core.errors import one_line
from grpo_core.files import read_json
from grpo_core.types import Measure, RoleMeasures
from services.reports.methods_page.methods_page import methods_body
from services.reports.methods_page.sensitivity_page import sensitivity_body
from services.reports.run_report.data import read_audit
from services.reports.run_report.schema import Audit

RESULTS = "results.json"
_RETURN = Measure("return", "return", "Return", "mean return", "mean", -1e300, 1e300)
_MEASURED = RoleMeasures(ROLE_NAME, (), (_RETURN,))


def compared_runs(folder: Path, add_bar: AddBar, most_bytes: int) -> tuple[list[dict[str, Any]], int]:
    """Return the runs of a comparison's folder that have room, each with its newest traces, and how many have none.

    Raises ReportError if an audit record is damaged.
    """
    cells, left_out = first_of_each(sorted((folder / "traces").glob("*/")), most_bytes)
    share = most_bytes // max(len(cells), 1)
    return [_run(folder, cell, add_bar, share, most_bytes) for cell in cells], left_out


def compared_pages(folder: Path) -> dict[str, str]:
    """Return the bodies of the folder's pages by title, made from ``results.json``. Raises RunError if it is none."""
    try:
        results = read_json(folder / RESULTS)
        if "sensitivity" in results:
            return {"Sensitivity to settings": sensitivity_body(results)}
        return {"Comparison of methods": methods_body(results)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        text = one_line(error, 200)
        raise RunError(f"{folder / RESULTS} is no result of entente compare: {text}; run it again") from None


def _run(folder: Path, cell: Path, add_bar: AddBar, most_bytes: int, most_of_one: int) -> dict[str, Any]:
    method, task = (*cell.name.split("~"), "")[:2]
    details = detailed_updates(cell, NUMBERS, {}, add_bar, most_bytes, most_of_one)
    return {
        "name": f"{METHODS[method].title if method in METHODS else method} on {task}",
        "about": {"world": task.replace("_", " "), "updates": max(map(int, details.traces), default=0)},
        **roles_of(_MEASURED, details.roles),
        "facts": [],  # those that its traces have
        "measures": [],
        "course": dynamics(_audits(folder, cell.name, details), _MEASURED, {}),
        "evaluations": [],
        "traces": details.traces,
        "left_out": details.left_out,
        "damaged": details.damaged,
    }


def _audits(folder: Path, cell: str, details: Details) -> Sequence[Audit]:
    paths = (folder / "audit").glob(f"{cell}~*.json")
    records = [read_audit(path) for path in paths] if details.traces else []
    return sorted(records, key=lambda record: record.version)
