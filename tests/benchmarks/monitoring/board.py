"""Draw a board of a recorded run: its panels' own queries, answered by a real Prometheus, in a real browser.

    python -m tests.benchmarks.monitoring.board runs/demo/metrics.jsonl --out board.png

Alerts are left out: their rules need a run under way. ``--window`` is the period of rates, "Rates over" in Grafana.
"""

from __future__ import annotations

import argparse
import html
import json
import math
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from plotly.offline import get_plotlyjs

from services.metrics.dashboards.all_dashboards import dashboards
from services.metrics.dashboards.panels import GREY, PERCENT, Dashboard, Panel, Query, Row
from services.metrics.jsonl import read_metrics
from services.reports.colors import DARK_COLORS
from tests.benchmarks.monitoring.replay import SCRAPE_S, fill_storage
from tests.measured import DIPLOMACY
from tests.system.support.monitoring.prometheus_server import Prometheus, serving

DASHBOARDS = dashboards((DIPLOMACY,))
UNIT_PX = 38  # height of one of Grafana's grid rows
RUN = "recorded"
GREENISH = {"green": "#3d8b40", "yellow": "#b58a00", "orange": "#c8641e", "red": "#b3372b", "text": "#22252b"}
PALETTE = ("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0")
STYLE = """
body { margin: 0; padding: 12px; background: #111217; color: #ccccdc; font: 13px system-ui, sans-serif; width: 1760px; }
h1 { font-size: 20px; font-weight: 500; margin: 4px 2px 2px; } h1 small { color: #8e8e9c; font-size: 13px; }
h2 { font-size: 15px; font-weight: 500; margin: 12px 2px 6px; }
.row { display: grid; grid-template-columns: repeat(24, 1fr); gap: 8px; }
.panel { background: #181b1f; border: 1px solid #24262b; border-radius: 3px; overflow: hidden; position: relative; }
.panel > b { position: absolute; z-index: 1; padding: 6px 8px; font-weight: 500; font-size: 12px; }
.stat { display: flex; justify-content: center; align-items: center; gap: 22px; height: 100%; padding-top: 14px; }
.stat div { text-align: center; font-size: 25px; color: #fff; } .stat small { display: block; font-size: 11px; }
table { border-collapse: collapse; margin: 30px 10px 8px; width: calc(100% - 20px); }
td, th { padding: 3px 8px; text-align: right; border-bottom: 1px solid #24262b; font-weight: 400; }
td:first-child, th:first-child { text-align: left; color: #8e8e9c; }
"""
SCRIPT = """
for (const chart of JSON.parse(document.getElementById("charts").textContent)) {
  Plotly.newPlot(chart.id, chart.traces, {
    margin: {l: 42, r: 10, t: 30, b: 38}, paper_bgcolor: "#181b1f", plot_bgcolor: "#181b1f",
    font: {color: "#9fa3ad", size: 10}, showlegend: true,
    legend: {orientation: "h", y: -0.14, font: {size: 9}, bgcolor: "rgba(0,0,0,0)"},
    xaxis: {type: "date", gridcolor: "#24262b", range: chart.range},
    yaxis: {gridcolor: "#24262b", zeroline: false, rangemode: chart.zero ? "tozero" : "normal",
            tickformat: chart.percent ? ".0%" : "~s"},
  }, {staticPlot: true});
}
document.title = "drawn";
"""


class Drawing:
    """Asks Prometheus what a board asks, and lays the answers out as Grafana would."""

    def __init__(self, server: Prometheus, start: float, end: float, window: str) -> None:
        self._server = server
        self._start, self._end = start, end
        self._window = window
        self._charts: list[dict[str, Any]] = []

    def page(self, board: Dashboard, caption: str) -> str:
        """One self-contained page."""
        rows = "".join(self._row(row) for row in board.rows for row in self._repeated(row))
        charts = json.dumps(self._charts).replace("<", "\\u003c")
        return (
            f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style><h1>{html.escape(board.title)} '
            f"<small>{html.escape(caption)}</small></h1>{rows}"
            f'<script type="application/json" id="charts">{charts}</script>'
            f"<script>{get_plotlyjs()}</script><script>{SCRIPT}</script>"
        )

    def _repeated(self, row: Row) -> Iterator[Row]:
        """A row as Grafana shows it: once for each value of what it, or a panel of it, is repeated over."""
        if row.repeat:
            for value in self._values(row):
                panels = tuple(_chosen(panel, row.repeat, value) for panel in row.panels)
                yield Row(value, panels)
            return
        panels = []
        for panel in row.panels:
            values = self._values(Row("", (panel,), panel.repeat)) if panel.repeat else [""]
            panels += [_chosen(panel, panel.repeat, value) for value in values]
        yield Row(row.title, tuple(panels))

    def _values(self, row: Row) -> list[str]:
        """Of the label that a row is repeated over."""
        asked = next(query.expr for panel in row.panels for query in panel.queries if f"${row.repeat}" in query.expr)
        return sorted({series["metric"][row.repeat] for series in self._over(asked)})

    def _row(self, row: Row) -> str:
        panels = "".join(map(self._panel, row.panels))
        return f'<h2>{html.escape(row.title)}</h2><div class="row">{panels}</div>'

    def _panel(self, panel: Panel) -> str:
        height = panel.height * UNIT_PX
        if "ALERTS" in panel.queries[0].expr:
            inside = '<div class="stat"><small>not evaluated on a recorded run</small></div>'
        elif panel.kind == "stat":
            inside = self._stat(panel)
        elif panel.kind == "matrix":
            inside, height = self._matrix(panel), 0
        else:
            inside = self._chart(panel, height)
        size = f"grid-column: span {panel.width}; " + (f"height: {height}px" if height else "")
        return f'<div class="panel" style="{size}"><b>{html.escape(panel.title)}</b>{inside}</div>'

    def _stat(self, panel: Panel) -> str:
        cells, worst = "", "text"
        for query in panel.queries:
            found = self._now(query.expr)
            value = found[0][1] if found else math.nan
            word = dict(panel.value_names).get(value) or _shown(value, query.unit or panel.unit)
            cells += f"<div>{word}<small>{html.escape(query.legend)}</small></div>"
            if query is panel.queries[-1]:
                worst = next((color for bound, color in reversed(panel.colors) if value >= bound), "text")
        return f'<div class="stat" style="background: {GREENISH[worst]}">{cells}</div>'

    def _matrix(self, panel: Panel) -> str:
        rows, columns = panel.by
        cells = {(labels[rows], labels[columns]): value for labels, value in self._now(panel.queries[0].expr)}
        names = sorted({column for _, column in cells})
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(
            f"<tr><td>{html.escape(row)}</td>"
            + "".join(f"<td>{_shown(cells.get((row, name), math.nan), panel.unit)}</td>" for name in names)
            + "</tr>"
            for row in sorted({row for row, _ in cells})
        )
        return f"<table><tr><th>{rows}</th>{head}</tr>{body}</table>"

    def _chart(self, panel: Panel, height: int) -> str:
        name = f"chart{len(self._charts)}"
        traces = [trace for query in panel.queries for trace in self._traces(panel, query)]
        for number, trace in enumerate(traces):
            color = DARK_COLORS.get(trace["name"], PALETTE[number % len(PALETTE)])
            trace.setdefault(
                "line", {"width": 1.5, "color": "#5b93e8" if trace["name"] in ("mean", "share") else color}
            )
        # The two edges come first, the lower one before the upper one, which is filled down to it.
        self._charts.append(
            {
                "id": name,
                "traces": traces,
                "range": [self._start * 1e3, self._end * 1e3],
                "zero": panel.minimum == 0,
                "percent": panel.unit == PERCENT,
            }
        )
        return f'<div id="{name}" style="height: {height}px"></div>'

    def _traces(self, panel: Panel, query: Query) -> Iterator[dict[str, Any]]:
        for series in self._over(query.expr):
            legend = re.sub(r"\{\{(\w+)\}\}", lambda match, of=series["metric"]: of.get(match[1], ""), query.legend)
            trace: dict[str, Any] = {
                "type": "scatter",
                "mode": "lines",
                "name": legend or panel.title,
                "x": [1e3 * time for time, _ in series["values"]],
                "y": [None if value == "NaN" else float(value) for _, value in series["values"]],
            }
            if query.faint:
                trace["line"] = {"width": 1, "color": GREY}
            if query.edge:
                trace |= {"line": {"width": 0}, "showlegend": False}
            if query.edge == "high":
                trace |= {"fill": "tonexty", "fillcolor": "rgba(91, 147, 232, 0.25)"}
            yield trace

    def _over(self, expr: str) -> list[dict[str, Any]]:
        return self._server.over(self._filled(expr), self._start, self._end, SCRAPE_S)

    def _now(self, expr: str) -> list[tuple[Mapping[str, str], float]]:
        found = self._server.ask("query", query=self._filled(expr), time=self._end)["result"]
        return [(series["metric"], float(series["value"][1])) for series in found]

    def _filled(self, expr: str) -> str:
        for name, value in (("run", RUN), ("window", self._window), ("country", ".+"), ("against", ".+")):
            expr = expr.replace(f"${name}", value)
        return expr


def _chosen(panel: Panel, variable: str, value: str) -> Panel:
    if not variable:
        return panel
    queries = tuple(replace(query, expr=query.expr.replace(f"${variable}", value)) for query in panel.queries)
    return replace(panel, title=panel.title.replace(f"${variable}", value), queries=queries)


def _shown(value: float, unit: str) -> str:
    if math.isnan(value):
        return "–"
    if unit == PERCENT:
        return f"{value:.1%}"
    if unit == "s":
        return f"{value:.0f} s" if value < 100 else f"{value / 60:.0f} min"
    return f"{value:,.0f}" if float(value).is_integer() or value > 1000 else f"{value:.2f}"


def screenshot(page: Path, out: Path) -> None:
    """A picture of the whole page, which asks no network for anything."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no Chromium on this machine: make browser")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        shown = chromium.new_context(viewport={"width": 1784, "height": 1000}, offline=True).new_page()
        shown.goto(page.as_uri())
        shown.wait_for_function("document.title === 'drawn'", timeout=120_000)
        shown.screenshot(path=out, full_page=True)
        chromium.close()


def main() -> None:
    """Replay, ask, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("metrics", type=Path, help="metrics.jsonl of a run, with config.toml in the same folder")
    parser.add_argument("--out", type=Path, default=Path("board.png"))
    parser.add_argument("--board", choices=[board.uid for board in DASHBOARDS], default=DASHBOARDS[0].uid)
    parser.add_argument("--window", default="5m")
    parser.add_argument("--caption", default="")
    wanted = parser.parse_args()
    lines = read_metrics(wanted.metrics)
    (board,) = [board for board in DASHBOARDS if board.uid == wanted.board]
    with tempfile.TemporaryDirectory(prefix="entente-board-") as folder:
        storage, config = Path(folder) / "tsdb", Path(folder) / "prometheus.yml"
        fill_storage(wanted.metrics, RUN, storage)
        config.write_text("scrape_configs: []\n")
        with serving(config, storage) as server:
            text = Drawing(server, lines[0].time, lines[-1].time + SCRAPE_S, wanted.window).page(board, wanted.caption)
        page = Path(folder) / "board.html"
        page.write_text(text)
        screenshot(page, wanted.out)


if __name__ == "__main__":
    main()
