"""Tell what training with press made of several seeds of one setting, as a Markdown table.

    python -m tests.benchmarks.press.seeds runs/profit-1 runs/profit-2 runs/profit-3

Each run is one seed, with the interval over its games; the last column is the seeds' mean with the interval over the
seeds (Student's t), which is wide for three of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scipy.stats import t

STATES = ("untrained", "trained", "muted")
PARTNERS = ("honest", "breaker")
MEASURES = {
    "mean_centers": "centres",
    "promises": "promises a game",
    "honesty": "share kept",
    "attacks_received": "attacked by partners a phase",
    "effective_cross_supports": "supports for others that mattered, a phase",
}
OF_PROMISES = ("promises", "honesty")  # a muted player makes none
# What the claims are about: one row minus another, seed by seed.
DIFFERENCES = {
    "centres among honest: trained minus muted": (("trained", "honest"), ("muted", "honest"), "mean_centers"),
    "centres among breakers: trained minus muted": (("trained", "breaker"), ("muted", "breaker"), "mean_centers"),
    "share kept among honest: trained minus untrained": (("trained", "honest"), ("untrained", "honest"), "honesty"),
    "supports that mattered: for honest minus for breakers": (
        ("trained", "honest"), ("trained", "breaker"), "effective_cross_supports"),
}  # fmt: skip

Press = Mapping[str, Mapping[str, Mapping[str, Any]]]  # by state, partner and measure


def over_seeds(values: list[float]) -> str:
    """The mean with its 95% interval over the seeds."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return f"{mean:.3g}"
    half = float(t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / len(values) ** 0.5
    return f"{mean:.3g} [{mean - half:.3g}, {mean + half:.3g}]"


def share_kept(row: Mapping[str, Any]) -> float:
    """The share of all promises that were kept, from the means of promises a game."""
    return 1 - float(row["promises_broken"]) / float(row["promises"])


def figure(row: Mapping[str, Any], measure: str) -> float:
    """A measure of a row."""
    return share_kept(row) if measure == "honesty" else float(row[measure])


def with_interval(row: Mapping[str, Any], measure: str) -> str:
    """A measure of a row with its interval over games, if it has one."""
    ends = row[f"{measure}_ci95"]
    return f"{row[measure]:.3g}" + ("" if ends is None else f" [{', '.join(f'{end:.3g}' for end in ends)}]")


def table(runs: Mapping[str, Press]) -> str:
    """Rows of states, partners and measures, a column for each run and one for all of them."""
    lines = ["| | " + " | ".join([*runs, "all seeds"]) + " |", "|---" * (len(runs) + 2) + "|"]
    for measure, title in MEASURES.items():
        for partner in PARTNERS:
            for state in STATES if measure not in OF_PROMISES else STATES[:-1]:
                found = [press[state][partner] for press in runs.values()]
                cells = [
                    f"{share_kept(one):.3g}" if measure == "honesty" else with_interval(one, measure) for one in found
                ]
                values = over_seeds([figure(one, measure) for one in found])
                lines.append(f"| {title}, six {partner}, {state} | " + " | ".join([*cells, values]) + " |")
    for title, (one, other, measure) in DIFFERENCES.items():
        gaps = [figure(press[one[0]][one[1]], measure) - figure(press[other[0]][other[1]], measure)
                for press in runs.values()]  # fmt: skip
        lines.append(f"| {title} | " + " | ".join([*(f"{gap:.3g}" for gap in gaps), over_seeds(gaps)]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    folders: list[Path] = parser.parse_args().runs
    print(table({run.name: json.loads((run / "summary.json").read_text())["press"] for run in folders}))


if __name__ == "__main__":
    main()
