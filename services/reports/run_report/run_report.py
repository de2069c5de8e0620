"""``report.html``: a run's results on one page that works offline."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from services.reports.colors import ALL, LIGHT_COLORS, country_styles
from services.reports.page import asset, page, write_page
from services.reports.run_report import text as run_text
from services.reports.run_report.charts import CENTERS, EVEN_SHARE, SYMBOLS, Chart, anchors, charts, smoothing_width
from services.reports.run_report.data import RunData, load_run
from services.reports.run_report.games import SavedGame, games_table, show_games

_SECTIONS = (
    ("curves", "Learning curves", False),
    ("comparison", "Before and after, by country", True),
    ("speed", "Throughput", False),
    ("learning", "The learner", False),
    ("groups", "Groups and rewards", True),
)


def write_report(run_dir: Path, defaults: Mapping[str, Mapping[str, Any]] | None = None) -> Path:
    """Write ``report.html`` into a run folder, without charts that have no data; ``ReportError`` says why it cannot.

    With the configuration's ``defaults`` the page lists the values that differ. The saved games of the last evaluations
    get their own pages beside them, to which it links.
    """
    run = load_run(run_dir)
    from plotly.offline import get_plotlyjs  # slow to import; a wrong folder needs none of it

    games = show_games(run)
    made = charts(run)
    for section in ("curves", "comparison"):
        _share_scale([chart for chart in made if chart["section"] == section])
    body = "\n".join(_body(run, made, games, defaults))
    title = f"{run.summary.get('run', run_dir.name)}: an Entente run"
    styles = asset("common.css") + country_styles() + asset("run_report/run_report.css")
    scripts = [get_plotlyjs(), asset("run_report/run_report.js")]
    text = page(title, body, styles=styles, data={"charts": made, "colors": list(LIGHT_COLORS)}, scripts=scripts)
    return write_page(run_dir / "report.html", text)


def _share_scale(made: Sequence[Chart]) -> None:
    """Give charts of centres one scale, so that they can be compared; an interval of few games may reach beyond it."""
    tops = [
        y + above
        for chart in made
        for trace in chart["traces"]
        for y, above in zip(trace["y"], trace.get("error_y", {}).get("array") or [0] * len(trace["y"]), strict=True)
    ]
    for chart in made:
        chart["range"] = [0, min(max([*tops, EVEN_SHARE]), CENTERS) * 1.05]


def _body(
    run: RunData,
    made: Sequence[Chart],
    games: Sequence[SavedGame],
    defaults: Mapping[str, Mapping[str, Any]] | None,
) -> Iterator[str]:
    yield "<main>"
    yield run_text.header(run)
    yield run_text.players(run)
    yield run_text.headlines(run)
    yield run_text.facts(run)
    for section, title, wide in _SECTIONS:
        chosen = [chart for chart in made if chart["section"] == section]
        if chosen:
            yield f'<section id="{section}"><h2>{title}</h2><p class="soft">{_note(section, run)}</p>'
            yield f'<div class="grid{" wide" if wide else ""}">{"".join(map(_figure, chosen))}</div></section>'
    yield run_text.evaluations(run)
    yield games_table(games)
    yield run_text.configuration(run, defaults)
    yield run_text.provenance(run)
    yield "</main>"


def _figure(chart: Chart) -> str:
    name = ALL if chart["id"] == "country-all" else chart["title"].upper()
    swatch = f'<span class="swatch" style="background:var(--line-{name})"></span>' if name in LIGHT_COLORS else ""
    title = html.escape(chart["title"])
    return (
        f'<figure class="card"><figcaption>{swatch}{title}</figcaption>'
        f'<div class="plot" id="{html.escape(chart["id"])}" role="img" aria-label="{title}"></div></figure>'
    )


def _note(section: str, run: RunData) -> str:
    if section == "curves":
        marks = [f"{mark} against {html.escape(name)}" for (_, mark), name in zip(SYMBOLS, anchors(run), strict=False)]
        return (
            "Final supply centres of training games: faint points are single updates, the line their moving average "
            f"over {smoothing_width(len(run.lines))} updates. Evaluations with 95% intervals: {', '.join(marks)}; "
            f"those of one checkpoint stand side by side. {run_text.EVEN_SHARE_NOTE}"
        )
    return {
        "comparison": "Mean final centres as each country, with 95% intervals; every country plays equally often. "
        + run_text.EVEN_SHARE_NOTE,
        "speed": "By the clock of training, with waiting, without evaluations and downtime between resumes.",
        "learning": "Faint points are single updates, lines a moving average over a tenth of the run.",
        "groups": "A group that is too small falls back to the next, coarser level.",
    }[section]
