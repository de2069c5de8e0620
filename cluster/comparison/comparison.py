"""A comparison's runs, side by side on Ray; what is done is kept, and resuming runs the rest.

``DIR/cells/NAME.json`` has a finished run's rows. It is written in one step, so that one that was killed runs again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cluster.comparison.cell import Cell, Row, json_bytes, run_cell
from cluster.comparison.methods import settings_digest
from cluster.comparison.plans import Plan
from cluster.errors import RunError
from cluster.runs.provenance import commit
from cluster.runtime.local_ray import local_ray, prepare_local_ray
from grpo_core.checkpoints.atomic_write import write_atomically
from grpo_core.errors import DivergenceError, one_line
from services.environments.tensor_task import TaskError
from services.environments.tensor_tasks.catalogue import make_task

CELLS, PLAN = "cells", "plan.json"
_SILENCE_S, _SILENCES = 3600.0, 24  # runs of the study take minutes; with more steps they may take hours


@dataclass(frozen=True, slots=True)
class Finished:
    """One run that is over; one that diverged goes on with what it had at its start."""

    cell: Cell
    rows: tuple[dict[str, Any], ...]
    error: str = ""  # why it diverged
    failure: str = ""  # why there is nothing: not kept, so that resuming runs it again
    commit: str = ""  # of the code that ran it


@dataclass(frozen=True, slots=True)
class Comparison:
    """All finished runs, and the tasks that could not be played."""

    finished: tuple[Finished, ...]
    missing: tuple[str, ...]  # a line for each task whose packages are not installed
    failed: tuple[str, ...] = ()  # a line for each run that failed


def compare(
    plan: Plan,
    out: Path,
    *,
    resume: bool,
    processes: int,
    notice: Callable[[str], None],
    advance: Callable[[int], None],
    begin: Callable[[int], None],
) -> Comparison:
    """Run what is not done yet; ``begin`` gets the number of all runs, ``advance`` each that is over.

    Raises RunError where ``out`` holds another comparison, or one without ``resume``.
    """
    cells, missing = _playable(plan)
    if not cells:
        raise RunError("; ".join(missing) or "none of these methods runs on any of these tasks")
    _claim(out, plan, resume=resume)
    folder = out / CELLS
    folder.mkdir(parents=True, exist_ok=True)
    known = {cell.name: _read(folder, cell) for cell in cells}
    begin(len(cells))
    advance(sum(found is not None for found in known.values()))
    others = {found.commit for found in known.values() if found is not None} - {commit()}
    if others:
        notice(f"some runs were made by other code ({', '.join(sorted(others))}; this is {commit()}) and are kept")
    left = [cell for cell in cells if known[cell.name] is None]
    if left:
        for found in _run(left, folder, processes, notice):
            known[found.cell.name] = found
            advance(1)
    over = [found for found in known.values() if found is not None]
    return Comparison(
        tuple(found for found in over if not found.failure),
        tuple(missing),
        tuple(f"{found.cell.name}: {found.failure}" for found in over if found.failure),
    )


def _playable(plan: Plan) -> tuple[list[Cell], list[str]]:
    """The runs of the tasks that can be played here, and a line for each of the others."""
    facts, missing = {}, []
    for each in plan.tasks:
        try:
            game = make_task(each.task).make()
        except TaskError as error:
            missing.append(str(error))
            continue
        facts[each.task] = frozenset(game.reset(0))
        game.close()
    kept = replace(plan, tasks=tuple(each for each in plan.tasks if each.task in facts))
    return (list(kept.cells(facts)) if kept.tasks else []), missing


def _claim(out: Path, plan: Plan, *, resume: bool) -> None:
    """Make the folder this comparison's, or check that it is; it may go on with more seeds than before."""
    wanted = {**asdict(plan), "settings": settings_digest()}
    path = out / PLAN
    if path.exists():
        if not resume:
            raise RunError(f"{out} holds a comparison already: add --resume to go on with it, or name another folder")
        kept = json.loads(path.read_bytes())
        if not isinstance(kept, dict) or _without_seeds(kept) != _without_seeds(json.loads(json_bytes(wanted))):
            raise RunError(
                f"{out} holds another comparison: repeat the options that it was begun with; if these are the same, "
                "the methods' settings have changed since: name a new folder"
            )
        if any(now.seeds < before["seeds"] for now, before in zip(plan.tasks, kept["tasks"], strict=True)):
            raise RunError(f"{out} holds runs of more seeds: name as many or more, or another folder")
        write_atomically(path, json_bytes(wanted))
        return
    if out.exists() and any(out.iterdir()):
        raise RunError(f"{out} is not empty and holds no comparison: name a new folder")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json_bytes(wanted))


def _without_seeds(plan: dict[str, Any]) -> dict[str, Any]:
    # What is not set counts as absent, as it is in a folder of earlier code. The first seed is set unless it is 0.
    tasks = [
        {name: value for name, value in task.items() if name != "seeds" and value is not None}
        for task in plan.get("tasks", [])
    ]
    own = {name: value for name, value in plan.items() if name != "first_seed" or value != 0}
    return {**own, "tasks": tasks}


def _read(folder: Path, cell: Cell) -> Finished | None:
    path = folder / f"{cell.name}.json"
    if not path.exists():
        return None
    found = json.loads(path.read_bytes())
    return Finished(cell, tuple(found["rows"]), found["error"], commit=found["commit"])


def _run(cells: Sequence[Cell], folder: Path, processes: int, notice: Callable[[str], None]) -> Iterator[Finished]:
    """Run cells on Ray, ``processes`` at a time, and yield each when it is over."""
    prepare_local_ray()
    import ray

    with local_ray(processes, notice):
        run = ray.remote(num_cpus=1, max_retries=1)(_finish)
        waiting = iter(cells)
        running: dict[Any, Cell] = {}
        silent = 0
        while True:
            while len(running) < processes and (cell := next(waiting, None)) is not None:
                running[run.remote(cell, str(folder))] = cell
            if not running:
                return
            ready, _ = ray.wait(list(running), num_returns=1, timeout=_SILENCE_S)
            silent = 0 if ready else silent + 1
            if not ready and silent < _SILENCES:
                names = ", ".join(cell.name for cell in running.values())
                notice(f"no run has ended for {silent * _SILENCE_S:g} s; still running: {names}")
                continue
            if not ready:
                for reference, cell in running.items():
                    ray.cancel(reference, force=True)
                    yield Finished(cell, (), failure=f"no run ended within {silent * _SILENCE_S:g} s")
                running.clear()
                silent = 0
                continue
            cell = running.pop(ready[0])
            try:
                yield ray.get(ready[0])
            except ray.exceptions.RayError as error:
                yield Finished(cell, (), failure=one_line(error, 300))


def _finish(cell: Cell, folder: str) -> Finished:
    """Run a cell in a process of its own, and keep its rows."""
    records = Path(folder).parent
    (records / "audit").mkdir(exist_ok=True)
    rows: list[Row] = []
    error = ""
    try:
        rows.extend(run_cell(cell, records))
    except DivergenceError as diverged:
        error = str(diverged)
        reached = rows[-1]
        for point in range(len(rows), cell.points + 1):
            spent = round(cell.budget * point / cell.points)
            # Both go on as they did, so that what follows the divergence counts in means over steps.
            done = max(reached.steps if cell.unit == "steps" else reached.episodes, 1)
            steps = spent if cell.unit == "steps" else round(max(reached.steps, 1) * spent / done)
            episodes = spent if cell.unit == "episodes" else round(max(reached.episodes, 1) * spent / done)
            rows.append(replace(rows[0], steps=steps, episodes=episodes, seconds=reached.seconds))
    found = Finished(cell, tuple(row.as_json for row in rows), error, commit=commit())
    kept = {"rows": found.rows, "error": error, "commit": found.commit}
    write_atomically(Path(folder) / f"{cell.name}.json", json_bytes(kept))
    return found


def all_rows(finished: Iterable[Finished]) -> list[dict[str, Any]]:
    """The rows of all runs."""
    return [row for each in finished for row in each.rows]
