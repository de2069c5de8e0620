"""The tables of a comparison in Markdown, and its record without the measurements before the last.

python -m tests.benchmarks.comparison.tables runs/study/results.json --record study.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from services.reports.methods_page.methods_page import UNITS

Row = Mapping[str, Any]
_DIGITS = 6  # significant ones, in the record


def task_table(document: Row, task: str) -> Iterator[str]:
    """A heading and a table: one line for each method, the best first."""
    rows = [row for row in document["summary"]["by_task"] if row["task"] == task]
    after = {row["method"]: row for row in document["summary"]["equal_seconds"] if row["task"] == task}
    ratios = {row["method"]: row for row in document["summary"]["worst_variants"] if row["task"] == task}
    game = rows[0].get("exploitability") is not None
    name, digits = ("exploitability", 3) if game else ("return", 1)
    columns = [("exploitability, last", name, 3), ("of the average", "average_exploitability", 3)]
    if not game:
        columns = [("return", name, 1), ("more than untrained", "gain", 1)]
    if ratios:
        columns += [("worst variant", "worst_variant", 1), ("fairness", "fairness", 2)]
    columns += [(each, each, 2 if each == "centers" else 3) for each in rows[0]["figures"]]
    pairs = document["summary"]["pairs_by_task"][task]
    sure = sum(pair["significant"] for pair in pairs)
    seconds = after[rows[0]["method"]]["seconds"]
    budget = f"{rows[0]['budget']:,} {UNITS[rows[0]['unit']]}"
    yield f"**{task}**, {budget}, {rows[0]['seeds']} seeds; {sure} of {len(pairs)} pairs differ"
    yield ""
    head = ["", *(title for title, _, _ in columns)]
    head += ["times one group's worst"] if ratios else []
    head += [f"after {seconds:.0f} s", "worst seed", "seconds"]
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for row in sorted(rows, key=lambda row: row[name] if game else -row[name]):
        cells = [document["titles"][row["method"]], *(_figure(row, each, places) for _, each, places in columns)]
        if ratios:
            cells.append(_figure(ratios[row["method"]], "ratio", 1) if row["method"] in ratios else "1")
        cells += [_figure(after[row["method"]], name, digits), f"{row['worst_seed']:.{digits}f}"]
        cells.append(f"{row['seconds']:.0f}" + (f" ({row['diverged']} diverged)" if row["diverged"] else ""))
        yield f"| {' | '.join(cells)} |"
    if game:
        yardstick = document["yardsticks"][task]
        yield ""
        yield (
            f"Even odds over all moves {rows[0]['uniform_exploitability']:.3f}; {yardstick['passes']} passes of "
            f"counterfactual regret minimisation {yardstick['exploitability']:.3f}."
        )


def over_tasks(document: Row) -> Iterator[str]:
    """The tables over several tasks."""
    for table in document["summary"]["over_tasks"]:
        if len(table["rows"]) < 2:
            continue
        yield f"**Over** {', '.join(table['tasks'])}"
        yield ""
        yield "| | interquartile mean | worst task |"
        yield "|---|---|---|"
        for row in table["rows"]:
            title = document["titles"][row["method"]]
            yield f"| {title} | {_figure(row, 'interquartile_mean', 2)} | {_figure(row, 'worst_task', 2)} |"
        yield ""


def record(document: Row) -> dict[str, Any]:
    """All of it but the measurements before each run's last."""
    last = {(row["method"], row["task"], row["seed"]): row for row in document["rows"]}
    found: dict[str, Any] = {**document, "rows": list(last.values())}
    return {name: _rounded(value) for name, value in found.items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def _figure(row: Row, name: str, digits: int) -> str:
    value, interval = row.get(name), row.get(f"{name}_ci95")
    if value is None:
        return "–"
    return f"{value:,.{digits}f}" + (
        "" if interval is None else f" [{interval[0]:,.{digits}f}, {interval[1]:,.{digits}f}]"
    )


def main() -> None:
    """Print the tables; write the record where one is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="results.json of `entente compare`")
    parser.add_argument("--record", type=Path, help="JSON file for the record")
    arguments = parser.parse_args()
    document = json.loads(arguments.results.read_text())
    print("\n".join(over_tasks(document)))
    for task in dict.fromkeys(row["task"] for row in document["summary"]["by_task"]):
        print("\n".join(task_table(document, task)), end="\n\n")
    pairs = document["summary"]["pairs"]
    print(f"{sum(pair['significant'] for pair in pairs)} of {len(pairs)} pairs over their tasks are significant.")
    for each in document["summary"]["diverged"]:
        print(f"{each['run']} diverged: {each['error']}")
    if arguments.record is not None:
        arguments.record.write_text(json.dumps(record(document), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
