"""All charts of a run's report."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_core.types import RoleMeasures
from services.reports.game_viewer.press import PressStory
from services.reports.run_report.charts.chart import Chart, has_data
from services.reports.run_report.charts.machinery import learning, levels, rewards, speed
from services.reports.run_report.charts.press import conduct_charts, press_charts
from services.reports.run_report.charts.roles import comparisons, curves
from services.reports.run_report.data import RunData
from services.reports.run_report.groups.advantages import advantage_charts
from services.reports.run_report.groups.buckets import Bucket, bucketed
from services.reports.run_report.groups.charts import group_charts, weight_charts
from services.reports.run_report.opponents.charts import opponent_charts
from services.reports.run_report.roles.recent import recent_charts


def all_charts(
    run: RunData, buckets: Sequence[Bucket] | None = None, stories: Sequence[PressStory] = ()
) -> list[Chart]:
    """Return all charts with data, in the order of the page.

    ``buckets`` are those of the run's audit records, ``stories`` what became of letters in its saved games.
    """
    groups = bucketed(run.audits) if buckets is None else buckets
    made = [
        *curves(run),
        *recent_charts(run),
        *comparisons(run),
        *press_charts(run),
        *conduct_charts(run, stories),
        *opponent_charts(run),
        *levels(run),
        *group_charts(run, groups),
        *advantage_charts(run, groups),
        *(weight_charts(run, groups) if groups else ()),
        *learning(run),
        *rewards(run),
        *speed(run),
    ]
    found = [chart for chart in made if has_data(chart)]
    for section in ("curves", "comparison"):
        share_scale([chart for chart in found if chart["section"] == section], run.measured)
    return found


def share_scale(made: Sequence[Chart], measured: RoleMeasures) -> None:
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
