"""Put runs of word problems with different seeds into one table: each label's figures, and what training brought.

    python -m tests.benchmarks.word_problems.table runs/words-1 runs/words-2 runs/words-3 --json table.json

Intervals are Student's over seeds, so that they hold what another seed would change. All runs have the same labels.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_core.statistics.estimate import SHARE, UNBOUNDED, Estimate, Range
from grpo_core.statistics.means import stratified_mean
from grpo_core.statistics.paired import paired_difference

MEASURES = {"exact_match": "exact match", "pass_at_1": "pass@1", "pass_at_8": "pass@8", "maj_at_8": "maj@8"}
LABELS = ("untrained", "imitated", "control", "trained")


def rows_of(run: Path, against: str) -> dict[str, dict[str, Any]]:
    """The newest evaluation of each label of a run."""
    summary = json.loads((run / "summary.json").read_text())
    return {row["label"]: row for row in summary["evaluations"] if row["against"] == against}


def figures(runs: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Means over seeds by label and measure, with what training brought over the control and over its start."""
    found: dict[str, Any] = {}
    for measure in MEASURES:
        values = {label: [run[label][measure] for run in runs] for label in LABELS if label in runs[0]}
        if any(value is None for each in values.values() for value in each):
            continue  # there were too few samples
        found[measure] = {label: _document(_mean(each, SHARE), each) for label, each in values.items()}
        for before in ("imitated", "control"):
            if before in values and "trained" in values:
                gains = [new - old for old, new in zip(values[before], values["trained"], strict=True)]
                estimate = paired_difference(values[before], values["trained"], (-1.0, 1.0))
                assert estimate is not None
                found[measure][f"trained - {before}"] = _document(estimate, gains)
    return found


def lines(found: Mapping[str, Any]) -> list[str]:
    """The table in Markdown, in percent and points."""
    columns = list(found["exact_match"])
    head = ["| mean over seeds, % |", *(f" {name} |" for name in columns)]
    table = ["".join(head), "|---" * (len(columns) + 1) + "|"]
    for measure, title in MEASURES.items():
        if measure not in found:
            continue
        cells = [_cell(found[measure][name], sign="+" if " - " in name else "") for name in columns]
        table.append(f"| {title} | {' | '.join(cells)} |")
    return table


def _mean(values: Sequence[float], within: Range = UNBOUNDED) -> Estimate:
    estimate = stratified_mean({"seeds": values}, within)
    assert estimate is not None
    return estimate


def _document(estimate: Estimate, values: Sequence[float]) -> dict[str, Any]:
    return {"mean": estimate.mean, "ci95": estimate.interval, "by_seed": list(values)}


def _cell(figure: Mapping[str, Any], sign: str) -> str:
    seeds = ", ".join(f"{100 * value:{sign}.1f}" for value in figure["by_seed"])
    bounds = figure["ci95"]
    interval = "" if bounds is None else f" [{100 * bounds[0]:{sign}.1f}, {100 * bounds[1]:{sign}.1f}]"
    return f"{100 * figure['mean']:{sign}.1f}{interval} ({seeds})"


def main() -> None:
    """Print the table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of finished runs with different seeds")
    parser.add_argument("--against", default="held_out", help="the problem set (default: held_out)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    found = figures([rows_of(run, given.against) for run in given.runs])
    print("\n".join(lines(found)))
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
