"""``report.html``: a run's results on one page that works offline."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_core.types import RoleMeasures
from services.reports.colors import LIGHT_COLORS, country_styles
from services.reports.page import asset, page, write_page
from services.reports.run_report import text as run_text
from services.reports.run_report.charts import SYMBOLS, Chart, anchors, charts, smoothing_width
from services.reports.run_report.data import RunData, load_run
from services.reports.run_report.games import SavedGame, games_table, show_games

_SECTIONS = (
    ("curves", "Learning curves", False),
    ("comparison", "Before and after, by {role}", True),
    ("speed", "Throughput", False),
    ("learning", "The learner", False),
    ("groups", "Groups and rewards", True),
)


def write_report(
    run_dir: Path, measured: RoleMeasures, defaults: Mapping[str, Mapping[str, Any]] | None = None
) -> Path:
    """Write ``report.html`` into a run folder, without charts that have no data; ``ReportError`` says why it cannot.

    ``measured`` says what the run's world measures. With the configuration's ``defaults`` the page lists the values
    that differ. The saved games of the last evaluations get their own pages beside them, to which it links.
    """
    run = load_run(run_dir, measured)
    from plotly.offline import get_plotlyjs  # slow to import; a wrong folder needs none of it

    games = show_games(run)
    made = charts(run)
    for section in ("curves", "comparison"):
        _share_scale([chart for chart in made if chart["section"] == section], measured)
    body = "\n".join(_body(run, made, games, defaults))
    title = f"{run.summary.get('run', run_dir.name)}: an Entente run"
    styles = asset("common.css") + country_styles() + asset("run_report/run_report.css")
    scripts = [get_plotlyjs(), asset("run_report/run_report.js")]
    text = page(title, body, styles=styles, data={"charts": made, "colors": list(LIGHT_COLORS)}, scripts=scripts)
    return write_page(run_dir / "report.html", text)


def _share_scale(made: Sequence[Chart], measured: RoleMeasures) -> None:
    """Give charts of the main measure one scale, to compare them; an interval of few games may reach beyond it."""
    main = measured.main
    even = [] if main.even is None else [main.even]
    top = min(max([*_ends(made, "array", 1), *even], default=main.high), main.high)
    bottom = 0.0 if main.low >= 0 else max(min([*_ends(made, "arrayminus", -1), *even, 0.0]), main.low)
    for chart in made:
        chart["range"] = [bottom * 1.05 if bottom else 0, top * 1.05]


def _ends(made: Sequence[Chart], bars: str, sign: int) -> list[float]:
    """All values of charts, each with its error bar of one side added."""
    return [
        y + sign * bar
        for chart in made
        for trace in chart["traces"]
        for y, bar in zip(trace["y"], trace.get("error_y", {}).get(bars) or [0] * len(trace["y"]), strict=True)
    ]


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
            heading = html.escape(title.format(role=run.measured.role_name))
            yield f'<section id="{section}"><h2>{heading}</h2><p class="soft">{_note(section, run)}</p>'
            yield f'<div class="grid{" wide" if wide else ""}">{"".join(map(_figure, chosen))}</div></section>'
    yield run_text.evaluations(run)
    yield games_table(games)
    yield run_text.configuration(run, defaults)
    yield run_text.provenance(run)
    yield "</main>"


def _figure(chart: Chart) -> str:
    lines = [trace["line"]["color"] for trace in chart["traces"] if "line" in trace]
    name = lines[0].removeprefix("@") if chart["section"] == "curves" and lines else ""
    swatch = f'<span class="swatch" style="background:var(--line-{name})"></span>' if name in LIGHT_COLORS else ""
    title = html.escape(chart["title"])
    return (
        f'<figure class="card"><figcaption>{swatch}{title}</figcaption>'
        f'<div class="plot" id="{html.escape(chart["id"])}" role="img" aria-label="{title}"></div></figure>'
    )


def _note(section: str, run: RunData) -> str:
    measured = run.measured
    main, role = measured.main, html.escape(measured.role_name)
    if section == "curves":
        named = zip(SYMBOLS, anchors(run), strict=False)
        marks = [f"{mark} {measured.versus} {html.escape(name)}" for (_, mark), name in named]
        evaluated = f" Evaluations with 95% intervals: {', '.join(marks)}; those of one checkpoint stand side by side."
        return (
            f"{html.escape(run_text.sentence(main.of_a_game))} of training games: faint points are single updates, the "
            f"line their moving average over {smoothing_width(len(run.lines))} updates.{evaluated if marks else ''} "
            f"{run_text.even_note(measured)}"
        ).rstrip()
    seat = "as" if measured.opponents else "for"
    return {
        "comparison": f"{html.escape(run_text.sentence(main.text))} {seat} each {role}, with 95% intervals; every "
        f"{role} plays equally often. {run_text.even_note(measured)}".rstrip(),
        "speed": "By the clock of training, with waiting, without evaluations and downtime between resumes.",
        "learning": "Faint points are single updates, lines a moving average over a tenth of the run.",
        "groups": "A group that is too small falls back to the next, coarser level.",
    }[section]
