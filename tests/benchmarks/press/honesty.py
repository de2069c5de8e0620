"""Draw honesty against score over the training of several runs with press, in one picture.

    python -m tests.benchmarks.press.honesty runs/profit-1 runs/profit-2 runs/honest-1 --out honesty.png

Runs whose names are alike but for a number at the end are one setting, drawn in one colour. Honesty is the share of all
promises of the last 100 episodes of each country that were kept, of those that a legal order would have broken.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

import plotly.graph_objects as go
from playwright.sync_api import sync_playwright
from plotly.subplots import make_subplots

from services.environments.diplomacy.position import POWERS
from services.metrics.jsonl import read_metrics

COLORS = ("#273795", "#c8641e", "#3d8b40", "#ba43a9")
WIDTH, HEIGHT = 1200, 420
SMOOTHED = 5  # updates


def course(run: Path) -> list[tuple[int, float, float]]:
    """Update, share of promises kept and mean centres over the countries, of every update that has all of them."""
    found = []
    for line in read_metrics(run / "metrics.jsonl"):
        sums = {}
        for name in ("centers", "promises", "promises_broken"):
            values = [line.metrics.get(f"entente_country_{name}{{country={power}}}") for power in POWERS]
            known = [value for value in values if isinstance(value, float)]
            sums[name] = sum(known) if len(known) == len(POWERS) else 0.0
        if sums["promises"]:
            kept = 1 - sums["promises_broken"] / sums["promises"]
            found.append((line.update, kept, sums["centers"] / len(POWERS)))
    return found


def smoothed(values: list[float]) -> list[float]:
    """The centred moving average over ``SMOOTHED`` updates, fewer at the ends."""
    half = SMOOTHED // 2
    windows = (values[max(0, place - half) : place + half + 1] for place in range(len(values)))
    return [sum(window) / len(window) for window in windows]


def figure(runs: list[Path]) -> go.Figure:
    """Honesty and centres over the updates, and one against the other."""
    settings: defaultdict[str, list[Path]] = defaultdict(list)
    for run in runs:
        settings[re.sub(r"[-_]?\d+$", "", run.name)].append(run)
    made = make_subplots(1, 3, subplot_titles=("promises kept", "centres", "promises kept against centres"))
    for color, (setting, members) in zip(COLORS, settings.items(), strict=False):
        for number, run in enumerate(members):
            points = course(run)
            updates = [update for update, _, _ in points]
            kept, centers = smoothed([point[1] for point in points]), smoothed([point[2] for point in points])
            line = {"color": color, "width": 2}
            common = {"mode": "lines", "line": line, "name": setting, "legendgroup": setting}
            made.add_scatter(x=updates, y=kept, row=1, col=1, showlegend=not number, **common)
            made.add_scatter(x=updates, y=centers, row=1, col=2, showlegend=False, **common)
            made.add_scatter(x=centers, y=kept, row=1, col=3, showlegend=False, **common)
            end = {"x": centers[-1:], "y": kept[-1:], "mode": "markers", "marker": {"color": color, "size": 9}}
            made.add_scatter(**end, row=1, col=3, showlegend=False, legendgroup=setting)
    for column, name in ((1, "update"), (2, "update"), (3, "centres")):
        made.update_xaxes(title_text=name, row=1, col=column)
    for column in (1, 3):
        made.update_yaxes(tickformat=".0%", row=1, col=column)
    made.update_layout(
        width=WIDTH, height=HEIGHT, template="plotly_white", margin={"l": 50, "r": 20, "t": 40, "b": 40},
        legend={"orientation": "h", "y": 1.18},
    )  # fmt: skip
    return made


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("honesty.png"))
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "page.html"
        page_file.write_text(figure(arguments.runs).to_html(include_plotlyjs=True))
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH + 20, "height": HEIGHT + 20})
        page.goto(page_file.as_uri())
        page.wait_for_selector(".main-svg")
        page.locator(".plot-container").screenshot(path=arguments.out)
        browser.close()


if __name__ == "__main__":
    main()
