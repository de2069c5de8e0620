"""Ratings, scores against each opponent, and who was drawn, over the updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from services.reports.colors import ALL, SERIES
from services.reports.run_report.charts.chart import (
    MOST_COLUMNS,
    Chart,
    Trace,
    course,
    line,
    make_chart,
    shown,
    slices,
    thinned,
)
from services.reports.run_report.data import RunData
from services.reports.run_report.schema import Lineup

LEARNER = "learner"  # as ratings name it
MOST_PLAYERS = 8  # lines of a chart
_SNAPSHOT = "policy/"
_SNAPSHOTS = "snapshots of itself"
_NORMAL_95 = 1.96  # deviations


def opponent_charts(run: RunData) -> list[Chart]:
    """Return the charts of the section; empty in a world without opponents."""
    if not run.measured.opponents:
        return []
    return [_ratings(run), _scores(run), _seats(run), _population(run)]


def _chosen(run: RunData, metric: str) -> tuple[list[str], int]:
    """The players of a chart as labels of keys, and how many there are: the learner, then those known longest."""
    seen = {
        label: len(run.series(f"{metric}{{{_label_name(metric)}={label}}}")[0]) for label in run.label_values(metric)
    }
    order = sorted(seen, key=lambda label: (label != LEARNER, -seen[label], label))
    return order[:MOST_PLAYERS], len(order)


def _label_name(metric: str) -> str:
    return "player" if metric == "entente_rating" else "opponent"


def _some(count: int, shown_of: Sequence[str]) -> str:
    return "" if count <= len(shown_of) else f" The {len(shown_of)} known longest of {count} are shown."


def _ratings(run: RunData) -> Chart:
    players, count = _chosen(run, "entente_rating")
    traces: list[Trace] = []
    for place, player in enumerate(players):
        points = run.series(f"entente_rating{{player={player}}}")
        color = f"@{ALL}" if player == LEARNER else SERIES[place % (len(SERIES) - 1)]
        if player == LEARNER:
            traces += _band(run, points)
        traces.append(line(points, shown(player), color))
    note = (
        "400 points are odds of ten to one to finish above; flat lines are fixed anchors. Grey: the learner's "
        "95% interval."
        f"{_some(count, players)}"
    )
    return make_chart("opponents-ratings", "opponents", "Ratings", "points", traces, note, legend=True)


def _band(run: RunData, points: tuple[list[float], list[float]]) -> list[Trace]:
    deviations = dict(zip(*run.series(f"entente_rating_deviation{{player={LEARNER}}}"), strict=True))
    known = thinned([(x, y, deviations[x]) for x, y in zip(*points, strict=True) if x in deviations])
    xs = [x for x, _, _ in known]
    low, high = ([y + sign * _NORMAL_95 * sigma for _, y, sigma in known] for sign in (-1, 1))
    plain = {
        "type": "scatter",
        "mode": "lines",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
        "x": xs,
    }
    return [
        {**plain, "y": low, "name": "learner, low end"},
        {**plain, "y": high, "name": "learner, high end", "fill": "tonexty", "fillcolor": "rgba(127,127,127,.25)"},
    ]


def _scores(run: RunData) -> Chart:
    players, count = _chosen(run, "entente_opponent_score")
    traces = [
        line(
            run.series(f"entente_opponent_score{{opponent={player}}}"), shown(player), SERIES[place % (len(SERIES) - 1)]
        )
        for place, player in enumerate(players)
    ]
    note = (
        "The share of recent games in which the learner finished above the opponent, a tie counting half; 0.5 is even."
        f"{_some(count, players)}"
    )
    options = {"legend": True, "range": [0, 1], "even": 0.5}
    return make_chart("opponents-scores", "opponents", "Score against each opponent", "score", traces, note, **options)


def _seats(run: RunData) -> Chart:
    seats = drawn_seats(run.lineups)
    traces = []
    xs = list(next(iter(seats.values()))) if seats else []
    for place, (name, shares) in enumerate(seats.items()):
        bars = {"type": "bar", "x": xs, "y": list(shares.values()), "name": shown(name)}
        said = course(shown(name), (xs, list(shares.values())))
        traces.append({**bars, "marker": {"color": SERIES[place % len(SERIES)]}, "say": said})
    note = "Who sat in the other seats of the training games that were drawn after each update."
    options = {"legend": True, "stacked": True}
    return make_chart("opponents-seats", "opponents", "Opponents drawn", "share of seats", traces, note, **options)


def drawn_seats(lineups: Sequence[Lineup]) -> dict[str, dict[int, float]]:
    """Return each opponent's share of the seats by update, of neighbouring updates together where there are many.

    Snapshots of the learner count as one; beyond ``MOST_PLAYERS`` opponents, the rest do.
    """
    versions = sorted({lineup.version for lineup in lineups if lineup.members})
    parts = [versions[part] for part in slices(len(versions), MOST_COLUMNS)]
    last_of = {version: part[-1] for part in parts for version in part}
    counts: dict[int, Counter[str]] = {}
    for lineup in lineups:
        if lineup.members:
            names = (_SNAPSHOTS if name.startswith(_SNAPSHOT) else name for name in lineup.members.values())
            counts.setdefault(last_of[lineup.version], Counter()).update(names)
    whole: Counter[str] = sum(counts.values(), Counter())
    often = [name for name, _ in sorted(whole.items(), key=lambda item: (-item[1], item[0]))[:MOST_PLAYERS]]
    found = {
        name: {version: count[name] / count.total() for version, count in sorted(counts.items())} for name in often
    }
    if len(whole) > len(often):
        found["others"] = {
            version: sum(count[name] for name in count if name not in often) / count.total()
            for version, count in sorted(counts.items())
        }
    return found


def _population(run: RunData) -> Chart:
    states = (("active", "may be drawn", SERIES[0]), ("retired", "retired", SERIES[1]))
    traces = [
        line(run.series(f"entente_population_size{{state={state}}}"), name, color) for state, name, color in states
    ]
    note = "Members of the population: bots, and frozen snapshots of the learner."
    options = {"legend": True, "zero": True}
    return make_chart("opponents-population", "opponents", "Population", "members", traces, note, **options)
