"""What players said and did to one another, in worlds whose measures count it."""

from __future__ import annotations

from services.reports.colors import SERIES
from services.reports.run_report.charts.chart import Chart, make_chart, smooth_line
from services.reports.run_report.data import RunData

# name, title, unit, measures with the names of their lines, note
_CHARTS = (
    ("honesty", "Honesty", "share", (("honesty", "of the policy"), ("partners_honesty", "of its partners")),
     "Share of the promises that were kept, of those that could be broken; 1 where there were none."),
    ("supports", "Cross-supports", "a movement phase",
     (("cross_supports", "given"), ("cross_supports_received", "received"),
      ("effective_cross_supports", "given, effective"), ("effective_cross_supports_received", "received, effective")),
     "Supports and convoys of other powers' units; effective are those without which units would stand elsewhere."),
    ("attacks", "Attacks", "a movement phase", (("attacks", "by the policy"), ("attacks_received", "on it")),
     "Orders against a power's unit or centre, whether or not they succeed."),
    ("letters", "Letters", "a movement phase", (("letters", "letters"),), "Letters that the policy sent."),
    ("promises", "Promises", "a game", (("promises", "promises"),), "Promises that the policy could have broken."),
)  # fmt: skip


def press_charts(run: RunData) -> list[Chart]:
    """Return what the last episodes of all roles say of press, by update; without data where there is none."""
    found = []
    role = run.measured.role_name
    for name, title, unit, measures, note in _CHARTS:
        lines = [
            smooth_line(run.role_mean(f"entente_{role}_{measure}"), said, SERIES[number])
            for number, (measure, said) in enumerate(measures)
        ]
        found.append(make_chart(f"press-{name}", "press", title, unit, lines, note, legend=len(lines) > 1, zero=True))
    return found
