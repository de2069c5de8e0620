"""The data of an explorer's page: of a run, of a comparison's folder, or recorded before."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.configs.checks import LINEUP_FACTS
from cluster.configs.schema import Config
from cluster.errors import RunError
from cluster.explore.details import detailed_updates
from cluster.explore.dynamics import dynamics, evaluation_points
from cluster.explore.opponents import members_of
from cluster.explore.roles import roles_of
from cluster.explore.token_text import TokenText, token_text
from cluster.runs.folder import RunFolder
from cluster.runs.progress_bars import AddBar
from cluster.runs.traces import trace_files
from grpo_core.checkpoints.folders import latest_checkpoint
from services.environments.environment import World
from services.reports.run_report.data import RunData, load_run

DOCUMENT_SCHEMA = 1
MOST_TRACE_BYTES = 4_100_000  # of all traces as they lie in the page's text, so that a page stays below 6 MB


def run_document(run_dir: Path, add_bar: AddBar, most_bytes: int = MOST_TRACE_BYTES) -> dict[str, Any]:
    """Return the page's data of one run, which may still be training.

    Raises:
        RunError: there is no run, or none of its updates was recorded.
        ReportError: the run's records cannot be read.
    """
    folder = RunFolder(run_dir)
    folder.check_format()
    config = folder.stored_config() if folder.config.exists() else Config()
    if not trace_files(folder.traces) and not any(folder.audit.glob("*.json")):
        raise RunError(f"{run_dir} holds no records of updates; train first, e.g. entente train smoke --run-dir RUN")
    data = load_run(run_dir, config.world.measured, finished=False)
    text = token_text(latest_checkpoint(run_dir))
    return page_document(
        str(data.summary.get("run") or run_dir.name),
        [{**one_run(data, config.task.name, text, add_bar, most_bytes), "facts": facts_of(config.world)}],
    )


def facts_of(world: World) -> list[str]:
    """Return the facts that groups of a world can be made of, so that the page offers no others."""
    lineup = LINEUP_FACTS if world.has_opponents else ()
    fork = ("fork",) if world.saves_positions else ()
    return list(dict.fromkeys((*lineup, *world.episode_facts, *world.turn_facts, *world.parting_facts, *fork)))


def page_document(
    title: str, runs: list[dict[str, Any]], comparison: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the data of a page of these runs; ``comparison`` has the HTML of pages to show beside them, by title."""
    return {
        "schema": DOCUMENT_SCHEMA,
        "title": title,
        "runs": runs,
        "pages": dict(comparison or {}),
    }


def one_run(data: RunData, world: str, text: TokenText, add_bar: AddBar, most_bytes: int) -> dict[str, Any]:
    """Return one run's part of the page: its course over updates, and updates in detail."""
    measured = data.measured
    members = members_of(data.lineups)
    details = detailed_updates(RunFolder(data.folder).traces, text, members, add_bar, most_bytes)
    facts = {name: data.summary.get(name) for name in ("run", "commit", "updates", "games", "episodes")}
    return {
        "name": str(data.summary.get("run") or data.folder.name),
        "about": {
            "world": world.replace("_", " "),
            **{name: each for name, each in facts.items() if each not in (None, "")},
        },
        **roles_of(measured, details.roles),
        "measures": [
            {"name": measure.name, "outcome": measure.outcome, "title": measure.title, "kind": measure.kind}
            for measure in measured.trained
        ],
        "course": dynamics(data.audits, measured, members),
        "evaluations": evaluation_points(data),
        "traces": details.traces,
        "left_out": details.left_out,
        "damaged": details.damaged,
    }
