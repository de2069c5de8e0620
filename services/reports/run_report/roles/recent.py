"""Each role's last 100 episodes: a table for every world, and a picture of their rewards."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from grpo_core.types import Measure, role_label
from services.reports.colors import line_color
from services.reports.run_report.charts.chart import OTHER, Chart, box, make_chart, number
from services.reports.run_report.data import RunData
from services.reports.run_report.table import NO_DATA, table

EPISODES = 100  # of a role; the run's own windows hold as many
_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True, slots=True)
class Recent:
    """A role's last episodes, as the run recorded them; None is "no data"."""

    role: str
    episodes: int | None
    reward: float | None
    reward_std: float | None  # Bessel-corrected; None with one episode
    length: float | None
    values: Mapping[str, float | None]  # of the measures that training follows, by name
    intervals: Mapping[str, tuple[float, float]]  # 95%, clustered by block, where there is one


def recent(run: RunData) -> list[Recent]:
    """Return every role of the world, from the newest measurements; a role without any has None everywhere."""
    newest: dict[str, Any] = {}
    for line in run.lines:
        newest |= line["metrics"]
    return [_recent(run, role, newest) for role in run.measured.roles]


def _recent(run: RunData, role: str, newest: Mapping[str, Any]) -> Recent:
    def figure(name: str) -> float | None:
        value = newest.get(run.of_role(f"entente_{run.measured.role_name}_{name}", role))
        return float(value) if isinstance(value, int | float) else None

    ends = {measure.name: (figure(f"{measure.name}_low"), figure(f"{measure.name}_high")) for measure in _measures(run)}
    total = figure("episodes_total")
    return Recent(
        role=role,
        episodes=None if total is None else min(EPISODES, int(total)),
        reward=figure("reward"),
        reward_std=figure("reward_std"),
        length=figure("phases"),
        values={measure.name: figure(measure.name) for measure in _measures(run)},
        intervals={name: (low, high) for name, (low, high) in ends.items() if low is not None and high is not None},
    )


def _measures(run: RunData) -> tuple[Measure, ...]:
    return run.measured.trained


def recent_section(run: RunData) -> str:
    """Return the table; empty where the run measured no role at all."""
    rows = recent(run)
    if all(row.reward is None for row in rows):
        return ""
    measures = _measures(run)
    head = (run.measured.role_name, "episodes", "reward, mean ± std", "length", *(each.heading for each in measures))
    cells = [
        [
            role_label(row.role),
            NO_DATA if row.episodes is None else str(row.episodes),
            _reward(row),
            NO_DATA if row.length is None else f"{row.length:.1f}",
            *(_measured(row, measure) for measure in measures),
        ]
        for row in rows
    ]
    return table(head, cells, texts=1, name=f"Last {EPISODES} episodes by {run.measured.role_name}")


def recent_note(run: RunData) -> str:
    """Say how to read the table and its picture, and whether whole games are all that is in them."""
    forks = [fork for audit in run.audits for fork in audit.forks]
    begun_elsewhere = (
        f" Games that began at a scenario or a saved position count too ({sum(forks):,} in the whole run)."
    )
    return html.escape(
        f"The last {EPISODES} training episodes of each {run.measured.role_name}, played by the policy as it was then. "
        "Length is in phases of the game, or in turns where the world counts none. Brackets hold 95% intervals, "
        f"clustered by block. A {run.measured.role_name} without an episode has no data."
        + (begun_elsewhere if any(forks) else "")
    )


def _reward(row: Recent) -> str:
    if row.reward is None:
        return NO_DATA
    return f"{row.reward:.3f}" if row.reward_std is None else f"{row.reward:.3f} ± {row.reward_std:.3f}"


def _measured(row: Recent, measure: Measure) -> str:
    value, ends = row.values[measure.name], row.intervals.get(measure.name)
    if value is None:
        return NO_DATA
    return measure.shown(value) + ("" if ends is None else f" [{measure.shown(ends[0])}, {measure.shown(ends[1])}]")


def last_rewards(run: RunData) -> dict[str, list[float]]:
    """Return the rewards of each role's last episodes, the oldest first; empty for records without them."""
    found: dict[str, list[float]] = {}
    for audit in run.audits:
        for role, reward in zip(audit.roles, audit.rewards, strict=False):
            if reward is not None:
                found.setdefault(role, []).append(reward)
    return {role: rewards[-EPISODES:] for role, rewards in found.items()}


def recent_charts(run: RunData) -> list[Chart]:
    """Return the rewards of the last episodes as box plots; as mean and deviation where only these are known."""
    rewards = last_rewards(run)
    roles = run.measured.roles
    traces = []
    for row in recent(run):
        name, color = html.escape(role_label(row.role)), line_color(row.role, roles) or OTHER
        if found := rewards.get(row.role):
            summary = {"quantiles": np.quantile(found, _QUANTILES).tolist(), "mean": float(np.mean(found))}
            said = f"{name}: mean {number(summary['mean'])}, median {number(summary['quantiles'][3])}"
            traces.append(box([name], [summary], name, color, say=said))
        elif row.reward is not None:
            bars = {"type": "data", "array": [row.reward_std or 0.0], "color": "@ink", "thickness": 1.2, "width": 3}
            said = f"{name}: mean {number(row.reward)}"
            marker = {"color": color, "size": 9}
            traces.append({"type": "scatter", "mode": "markers", "x": [name], "y": [row.reward], "name": name,
                           "marker": marker, "error_y": bars, "say": said})  # fmt: skip
    note = (
        "The box holds the middle half of the episodes, the line in it is the median, the dashed one the mean; "
        "whiskers end at 5% and 95%."
        if rewards
        else "Mean and standard deviation; this run was recorded before single rewards were kept."
    )
    options = {"category": True, "boxes": True, "full": True}
    return [make_chart("recent-rewards", "recent", "Reward of an episode", "reward", traces, note, **options)]
