"""``results.json`` and ``compare.html`` of a study of settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from cluster.comparison.methods import METHODS
from cluster.comparison.sensitivity.ranges import RANGES, Float64Array, values
from cluster.comparison.sensitivity.surface import Surface, importances, plateau
from cluster.comparison.sensitivity.trials import Study, Trial
from cluster.errors import RunError
from cluster.runs.provenance import commit, provenance
from grpo_core.checkpoints.atomic_write import write_atomically
from services.reports.methods_page.sensitivity_page import sensitivity_page
from services.reports.page import write_page

_GRID = 16
_LEAST = 10  # trials, for a surface
_AVERAGED = 64  # trials whose other settings a surface over two is the mean of


def write_study(study: Study, trials: Sequence[Trial], out: Path, command: str) -> Iterator[str]:
    """Write both files; yield lines that say what was found and where it lies. Raises RunError for few trials."""
    if len(trials) < _LEAST:
        raise RunError(f"{len(trials)} trials say nothing of {len(RANGES)} settings: run {_LEAST} or more")
    machine = provenance()
    document: dict[str, Any] = {
        "command": command,
        "commit": commit(),
        "machine": f"{machine['cpus']} cores, {machine['processor']}",
        "study": asdict(study),
        "title": METHODS[study.method].title,
        "ranges": [asdict(each) for each in RANGES],
        "sensitivity": analysed(study, trials),
        "rows": [{**row, "settings": trial.settings} for trial in trials for row in trial.rows],
        "diverged": sum(bool(trial.error) for trial in trials),
    }
    write_atomically(out / "results.json", json.dumps(document, indent=1, allow_nan=False).encode())
    write_page(out / "compare.html", sensitivity_page(document))
    yield from _lines(document)
    yield f"written to {out / 'results.json'} and {out / 'compare.html'}"


def analysed(study: Study, trials: Sequence[Trial]) -> dict[str, Any]:
    """Importance and surface at each measurement, and the settings to take; JSON-able."""
    places_NP = np.array([trial.places for trial in trials], np.float64)
    returns_NC = np.array([trial.returns(study.points) for trial in trials], np.float64)
    names = [each.name for each in RANGES]
    at_points: list[dict[str, Any]] = []
    surfaces = []
    for point in range(study.points):
        returns_N = returns_NC[:, point]
        steps = round(study.steps * (point + 1) / study.points)
        matter = importances(places_NP, returns_N, names, study.seed)
        surfaces.append(Surface(places_NP, returns_N, study.seed))
        at_points.append({"steps": steps, "importance": [
            {"setting": name, "share": each.share, "share_ci95": [each.low, each.high]}
            for name, each in zip(names, matter, strict=True)
        ]})  # fmt: skip
    final = at_points[-1]["importance"]
    first, second = sorted(range(len(names)), key=lambda index: -final[index]["share"])[:2]
    for each, surface in zip(at_points, surfaces, strict=True):
        grid: Float64Array = surface.over_two(first, second, places_NP[:_AVERAGED], _GRID)
        each["surface"] = grid.tolist()
    chosen = plateau(surfaces[-1], places_NP, returns_NC[:, -1], study.seed)
    line = np.linspace(0.0, 1.0, _GRID)
    return {
        "points": at_points,
        "axes": [{"setting": names[index], "values": [RANGES[index].value(at) for at in line]}
                 for index in (first, second)],
        "recommended": {"settings": values(chosen.place), "expected": chosen.expected, "around": chosen.around},
        "best_trial": {
            "settings": trials[chosen.best_trial].settings, "return": chosen.best_return,
            "expected": chosen.best_expected, "around": chosen.best_around,
        },
        "returns": returns_NC[:, -1].tolist(),
        "measure": "minus exploitability" if "exploitability" in trials[0].rows[0] else "return",
    }  # fmt: skip


def _lines(document: dict[str, Any]) -> Iterator[str]:
    found, study = document["sensitivity"], document["study"]
    yield f"{document['title']} on {study['task']}: {len(found['returns'])} trials of {study['steps']:,} steps"
    yield "share of the variance that each setting explains by itself:"
    for each in sorted(found["points"][-1]["importance"], key=lambda row: -row["share"]):
        low, high = each["share_ci95"]
        yield f"  {each['setting']:22}{each['share']:.2f} [{low:.2f}, {high:.2f}]"
    for title, name in (("recommended, on a broad plateau", "recommended"), ("best single trial", "best_trial")):
        row = found[name]
        told = ", ".join(f"{key}={_shown(value)}" for key, value in row["settings"].items())
        yield f"{title}: {told}"
        yield f"  expected {found['measure']} {row['expected']:.4g}; most neighbours reach {row['around']:.4g}"


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"
