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


def table(runs: Mapping[str, Press]) -> str:
    """Rows of states, partners and measures, a column for each run and one for all of them."""
    lines = ["| | " + " | ".join([*runs, "all seeds"]) + " |", "|---" * (len(runs) + 2) + "|"]
    for measure, title in MEASURES.items():
        for partner in PARTNERS:
            for state in STATES if measure not in OF_PROMISES else STATES[:-1]:
                found = [press[state][partner] for press in runs.values()]
                cells = [
                    f"{one[measure]:.3g} [{', '.join(f'{end:.3g}' for end in one[f'{measure}_ci95'])}]" for one in found
                ]
                values = over_seeds([one[measure] for one in found])
                lines.append(f"| {title}, six {partner}, {state} | " + " | ".join([*cells, values]) + " |")
    for title, (one, other, measure) in DIFFERENCES.items():
        gaps = [press[one[0]][one[1]][measure] - press[other[0]][other[1]][measure] for press in runs.values()]
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
