"""What players said and did to one another, in worlds whose measures count it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from grpo_core.types import role_label
from services.reports.colors import SERIES
from services.reports.game_viewer.press import PressStory
from services.reports.run_report.charts.chart import Chart, Trace, course, make_chart, scatter, smooth_line
from services.reports.run_report.data import RunData

MOST_ALLIANCES = 6  # lines of a chart
_KEPT_COLORS = [[0, "@AUSTRIA"], [0.5, "@card"], [1, "@FRANCE"]]
_ROW_PX, _MARGINS_PX = 30, 110

# name, title, unit, measures with the names of their lines, note
_CHARTS = (
    ("honesty", "Honesty", "share", (("honesty", "of the policy"), ("partners_honesty", "of its partners")),
     "Share of all promises that were kept, of those that could be broken; no data where there were none."),
    ("supports", "Cross-supports", "a movement phase",
     (("cross_supports", "given"), ("cross_supports_received", "received"),
      ("effective_cross_supports", "given, effective"), ("effective_cross_supports_received", "received, effective")),
     "Supports and convoys of other powers' units; effective are those without which units would stand elsewhere."),
    ("attacks", "Attacks", "a movement phase", (("attacks", "by the policy"), ("attacks_received", "on it")),
     "Orders against a power's unit or centre, whether or not they succeed."),
    ("letters", "Letters", "a movement phase", (("letters", "letters"),), "Letters that the policy sent."),
    ("promises", "Promises", "a game", (("promises", "given"), ("promises_broken", "broken")),
     "Promises of the policy that it could have broken, and those of them that it broke."),
)  # fmt: skip


def press_charts(run: RunData) -> list[Chart]:
    """Return what the last episodes of all roles say of press, by update; without data where there is none."""
    found = []
    role = run.measured.role_name
    weights = {measure.name: f"entente_{role}_{measure.weight}" for measure in run.measured.trained if measure.weight}
    for name, title, unit, measures, note in _CHARTS:
        lines = [
            smooth_line(run.role_mean(f"entente_{role}_{measure}", weights.get(measure, "")), said, SERIES[number])
            for number, (measure, said) in enumerate(measures)
        ]
        found.append(make_chart(f"press-{name}", "press", title, unit, lines, note, legend=len(lines) > 1, zero=True))
    return found


def conduct_charts(run: RunData, stories: Sequence[PressStory]) -> list[Chart]:
    """Return which promises of each pair of powers were kept, and their alliances, in the last evaluations' games."""
    if not stories:
        return []
    games = "the saved game" if len(stories) == 1 else f"the {len(stories)} saved games"
    source = f"In {games} of the last evaluations, all players together."
    return [*_kept_by_pair(run, stories, source), _alliances(stories, source)]


def _kept_by_pair(run: RunData, stories: Sequence[PressStory], source: str) -> list[Chart]:
    counts: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for story in stories:
        for pair, (kept, broken, *_) in story.pairs.items():
            counts[pair][0] += kept
            counts[pair][1] += kept + broken
    roles = list(run.measured.roles)
    givers = roles[::-1]  # Plotly's axis grows upwards
    shares = {pair: kept / tested for pair, (kept, tested) in counts.items() if tested}
    if not shares:
        return []
    said = [f"{role_label(giver)} to {role_label(other)} {share:.0%}" for (giver, other), share in shares.items()]
    trace: Trace = {
        "type": "heatmap",
        "x": [role_label(each) for each in roles],
        "y": [role_label(each) for each in givers],
        "z": [[shares.get((giver, other)) for other in roles] for giver in givers],
        "name": "promises kept",
        "hoverongaps": False,
        "colorscale": _KEPT_COLORS,
        "zmin": 0,
        "zmax": 1,
        "colorbar": {"title": {"text": "share kept", "side": "right"}, "thickness": 12, "outlinewidth": 0},
        "say": f"promises kept: {', '.join(said)}",
        "hovertemplate": "%{y} to %{x}<br>%{z:.0%} kept<extra></extra>",
    }
    options = {"heat": True, "row": _ROW_PX, "margins": _MARGINS_PX, "category": True}
    note = f"Of the promises that could be broken, by who gave them (rows) and to whom (columns). {source}"
    return [make_chart("press-pairs", "press", "Promises kept, by pair", "", [trace], note, **options)]


def _alliances(stories: Sequence[PressStory], source: str) -> Chart:
    played = Counter(year for story in stories for year in story.alliances)
    stood = Counter((name, year) for story in stories for year, names in story.alliances.items() for name in names)
    often = Counter(name for name, _ in stood.elements())
    traces = []
    for place, (name, _) in enumerate(often.most_common(MOST_ALLIANCES)):
        points = [float(year) for year in sorted(played)], [stood[name, year] / played[year] for year in sorted(played)]
        marker = {"color": SERIES[place], "size": 6}
        said = course(name, points, at="year")
        traces.append(scatter(points, name, "lines+markers", marker=marker, line={"color": SERIES[place]}, say=said))
    note = f"Share of the games in which an alliance stood at a year's end; the most frequent ones. {source}"
    options = {"legend": True, "range": [0, 1.05], "x": "year", "whole": True}
    return make_chart("press-alliances", "press", "Alliances, by year", "share of games", traces, note, **options)
