"""``report.html``: a run's results on one page that works offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_core.types import RoleMeasures
from services.reports.colors import country_styles
from services.reports.game_viewer.press import TellPress
from services.reports.page import asset, page, write_page
from services.reports.run_report import text as run_text
from services.reports.run_report.all_charts import all_charts
from services.reports.run_report.charts.chart import Chart, rounded
from services.reports.run_report.configuration import configuration, provenance
from services.reports.run_report.data import RunData, load_run
from services.reports.run_report.games.drawing import AddBar
from services.reports.run_report.games.notable import notable_games, notable_table
from services.reports.run_report.games.pages import games_table, page_of, show_games
from services.reports.run_report.games.press import RememberedPress, press_stories
from services.reports.run_report.games.training import show_training_games, training_games_table
from services.reports.run_report.groups.advantages import frames
from services.reports.run_report.groups.buckets import Bucket, bucketed
from services.reports.run_report.sections import SECTIONS, contents, controls, page_data, section_html, title_of

_SCRIPTS = ("traces", "layout", "tables", "start")


def write_report(
    run_dir: Path,
    measured: RoleMeasures,
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
    add_bar: AddBar | None = None,
    tell_press: TellPress | None = None,
) -> Path:
    """Write ``report.html`` into a run folder, without charts that have no data; ``ReportError`` says why it cannot.

    ``measured`` says what the run's world measures. With the configuration's ``defaults`` the page lists the values
    that differ. The saved games of the last evaluations, notable ones of others and the newest of training get their
    own pages beside them, to which it links; ``add_bar`` shows how many of them are drawn. ``tell_press`` says what
    became of letters in them.
    """
    run = load_run(run_dir, measured)
    from plotly.offline import get_plotlyjs  # slow to import; a wrong folder needs none of it

    buckets = bucketed(run.audits)
    tell = None if tell_press is None else RememberedPress(tell_press)
    charts = all_charts(run, buckets, press_stories(run, tell, add_bar))
    made = controls(charts, run, frames(buckets))
    title = f"{run.summary.get('run', run_dir.name)}: an Entente run"
    styles = asset("common.css") + country_styles() + asset("run_report/run_report.css")
    scripts = [get_plotlyjs(), *(asset(f"run_report/script/{name}.js") for name in _SCRIPTS)]
    body = _body(run, _sections(run, charts, made, buckets), defaults, add_bar, tell)
    text = page(title, body, styles=styles, data=rounded(page_data(charts, made)), scripts=scripts)
    return write_page(run_dir / "report.html", text)


def _sections(
    run: RunData, charts: Sequence[Chart], made: Mapping[str, Any], buckets: Sequence[Bucket]
) -> dict[str, tuple[str, str]]:
    """The title and HTML of each section with charts, by id."""
    found = {
        section.name: (title_of(section, run), section_html(section, run, charts, made, buckets))
        for section in SECTIONS
    }
    return {name: (title, text) for name, (title, text) in found.items() if text}


def _body(
    run: RunData,
    drawn: Mapping[str, tuple[str, str]],
    defaults: Mapping[str, Mapping[str, Any]] | None,
    add_bar: AddBar | None,
    tell_press: TellPress | None,
) -> str:
    games = show_games(run, add_bar, tell_press)
    notable = notable_table(notable_games(run), lambda game: page_of(game, games, run.folder, tell_press))
    written = {
        "evaluations": ("Evaluations", run_text.evaluations(run)),
        "notable": ("Notable games", notable),
        "games": ("Games", games_table(games)),
        "training-games": ("Games of training", training_games_table(show_training_games(run, add_bar, tell_press))),
        "configuration": ("Configuration", configuration(run, defaults)),
        "provenance": ("Provenance", provenance(run)),
    }
    before = ("curves", "recent", "comparison", "evaluations", "notable", "press", "opponents")
    parts = {**drawn, **{name: part for name, part in written.items() if part[1]}}
    order = [name for name in before if name in parts]
    order += [name for name in parts if name not in order]
    return "\n".join(
        [
            "<main>",
            run_text.header(run),
            run_text.players(run),
            run_text.headlines(run),
            run_text.facts(run),
            contents({name: parts[name][0] for name in order}),
            *(parts[name][1] for name in order),
            "</main>",
        ]
    )
