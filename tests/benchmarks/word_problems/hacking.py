"""Draw a run that is paid for unique characters: what it is paid for rises, and what was meant does not.

entente train word_problems --run-dir runs/hacked --set 'game.reward={ unique_characters = 1.0 }'
python -m tests.benchmarks.word_problems.hacking runs/hacked --out hacking.png
"""

from __future__ import annotations

import argparse
import html
import tempfile
from pathlib import Path
from statistics import fmean

import plotly.graph_objects as go

from services.metrics.jsonl import read_metrics
from services.reports.colors import LIGHT_COLORS
from tests.benchmarks.monitoring.board import screenshot

SMOOTHED = 5  # updates


def curves(run: Path) -> tuple[list[int], list[float], list[float]]:
    """Updates, the mean share of unique characters, and the share of right answers in the update's completions."""
    updates, paid, meant = [], [], []
    for line in read_metrics(run / "metrics.jsonl"):
        part = line.metrics.get("entente_reward_part{part=unique_characters}")
        right = [value for key, value in line.metrics.items() if key.startswith("entente_batch_exact_match{")]
        if isinstance(part, float) and right:
            updates.append(line.update)
            paid.append(part)
            meant.append(fmean(value for value in right if isinstance(value, float)))
    return updates, paid, meant


def smoothed(values: list[float]) -> list[float]:
    """Means of up to ``SMOOTHED`` updates."""
    return [fmean(values[max(0, end - SMOOTHED) : end]) for end in range(1, len(values) + 1)]


def main() -> None:
    """Read, draw, photograph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run that is paid for unique characters")
    parser.add_argument("--out", type=Path, default=Path("hacking.png"))
    parser.add_argument("--caption", default="Mean of five updates")
    wanted = parser.parse_args()
    updates, paid, meant = curves(wanted.run)
    figure = go.Figure()
    for name, values, color in (
        ("unique characters, what is paid for", paid, LIGHT_COLORS["RUSSIA"]),
        ("right answers, what was meant", meant, LIGHT_COLORS["AUSTRIA"]),
    ):
        figure.add_scatter(x=updates, y=smoothed(values), name=name, line={"color": color, "width": 5})
    figure.update_layout(
        template="plotly_white",
        width=1760,  # the whole of the photographed page
        height=980,
        margin={"t": 130},
        font={"size": 26},
        title=f"Paid for unique characters<br><sup>{html.escape(wanted.caption)}</sup>",
        xaxis_title="update",
        yaxis={"title": "share", "tickformat": ".0%", "rangemode": "tozero"},
        legend={"orientation": "h", "y": -0.15},
    )
    page = figure.to_html(include_plotlyjs=True, post_script="document.title = 'drawn'")
    with tempfile.TemporaryDirectory(prefix="entente-hacking-") as folder:
        file = Path(folder) / "page.html"
        file.write_text(page)
        screenshot(file, wanted.out)


if __name__ == "__main__":
    main()
