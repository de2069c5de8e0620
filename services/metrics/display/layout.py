"""The terminal display's state, and pure functions from it to rich renderables and plain lines."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import fmean

from rich.console import Group, JustifyMethod, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from grpo_core.types import RoleMeasures, role_label
from services.metrics.rolling_windows import RoleSummary

SPARKLINE_POINTS = 16  # snapshots
_PACE_SNAPSHOTS = 20  # updates from which the time left is estimated
DASH = "–"
_BAR_CELLS = 18
_LONG_RANGE = 10  # of a measure, from which one decimal place tells roles apart
_WIDE = 92  # terminal columns below which the table leaves some out
_ACCENT, _QUIET = "#5b8def", "#8a8f98"
_SPARKLINE_MARKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    header: str
    from_width: int = 0  # terminal columns from which it is shown
    width: int | None = None
    justify: JustifyMethod = "right"


# Columns that are no measures; the marks cannot be in a measure's name.
_ROLE, _BAR, _CHANGE, _COURSE, _REWARD, _EPISODES = (
    f"<{name}>" for name in ("role", "bar", "change", "course", "reward", "episodes")
)

# Known roles have their own colours: those of the engine's map, lighter, for dark terminals. Others take them in turn.
_COLORS = {
    "AUSTRIA": "#d98a7f",
    "ENGLAND": "#b06be0",
    "FRANCE": "#6f8ff0",
    "GERMANY": "#b39c84",
    "ITALY": "#4fae4f",
    "RUSSIA": "#98a3bb",
    "TURKEY": "#cfbb2c",
}


@dataclass(frozen=True, slots=True)
class DisplaySnapshot:
    """The figures after one update; ``None`` means no data and is shown as a dash."""

    update: int  # updates made, 0 before the first
    games: int
    episodes: int
    roles: Mapping[str, RoleSummary | None]  # in the order of the table
    measured: RoleMeasures  # what the table shows of them
    games_per_hour: float | None = None
    decisions_per_second: float | None = None
    completion_tokens_per_second: float | None = None
    learner_tokens_per_second: float | None = None
    staleness: float | None = None  # updates, mean
    loss: float | None = None
    kl: float | None = None  # nats
    entropy: float | None = None  # nats
    # The main measure by role, to which "change" refers; else the first seen.
    start_values: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class DisplayState:
    """All that the layout renders."""

    total_updates: int
    started: float  # monotonic seconds
    stage: str = "setting up"
    stage_done: int = 0
    stage_total: int | None = None
    stage_started: float = 0.0
    snapshot: DisplaySnapshot | None = None
    first_values: dict[str, float] = field(default_factory=dict)  # of the main measure, by role
    history: dict[str, deque[float]] = field(default_factory=dict)  # the same of past snapshots, oldest first
    pace: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_PACE_SNAPSHOTS))

    def add(self, snapshot: DisplaySnapshot, now: float) -> None:
        """Make a snapshot the current one."""
        self.snapshot = snapshot
        self.pace.append((now, snapshot.update))
        for role, summary in snapshot.roles.items():
            if summary is None:
                continue
            value = summary.values[snapshot.measured.main.name]
            self.first_values.setdefault(role, value)
            self.history.setdefault(role, deque(maxlen=SPARKLINE_POINTS)).append(value)
        self.first_values.update(snapshot.start_values)

    def seconds_left(self, now: float) -> float | None:
        """Return the time to the last update at the recent pace; None before two updates."""
        if len(self.pace) < 2:
            return None
        (first_time, first), (last_time, last) = self.pace[0], self.pace[-1]
        if last <= first:
            return None
        seconds_each = (last_time - first_time) / (last - first)
        return max(0.0, seconds_each * (self.total_updates - last) - (now - last_time))


def render(state: DisplayState, now: float, width: int) -> RenderableType:
    """Draw the whole display, for a terminal of ``width`` columns."""
    parts: list[RenderableType] = [_progress(state, now), _stage(state, now)]
    if state.snapshot is not None:
        wide = width >= _WIDE
        parts += [Text(), _figures(state.snapshot, wide), Text(), _roles(state, state.snapshot, width)]
    return Panel(Group(*parts), title="[bold]Entente[/bold]", border_style="dim", padding=(0, 1))


def plain_line(state: DisplayState, now: float) -> str:
    """Describe the latest update on one line."""
    snapshot = state.snapshot
    if snapshot is None:
        return ""
    summaries = {role: summary for role, summary in snapshot.roles.items() if summary is not None}
    main = snapshot.measured.main
    values = {role: summary.values[main.name] for role, summary in summaries.items()}
    digits = 1 if main.high - main.low >= _LONG_RANGE else main.digits
    parts = [
        f"update {snapshot.update}/{state.total_updates}",
        f"games {snapshot.games}",
        f"{main.heading} {main.shown(fmean(values.values()))}" if values else "",
        " ".join(f"{name} {main.shown(values[role], digits)}" for role, name in _short(values).items()),
        f"reward {fmean(summary.reward for summary in summaries.values()):.2f}" if summaries else "",
        *(
            f"{name} {value:.{digits}f}"
            for name, value, digits in (
                ("loss", snapshot.loss, 4),
                ("kl", snapshot.kl, 4),
                ("entropy", snapshot.entropy, 3),
                ("staleness", snapshot.staleness, 1),
                ("games/h", snapshot.games_per_hour, 0),
                ("decisions/s", snapshot.decisions_per_second, 0),
                ("tokens/s", snapshot.completion_tokens_per_second, 0),
                ("learner tokens/s", snapshot.learner_tokens_per_second, 0),
            )
            if value is not None
        ),
        f"left {duration(state.seconds_left(now))}",
    ]
    return " | ".join(part for part in parts if part)


def sparkline(values: Iterable[float], low: float, high: float) -> str:
    """Draw values as block marks between ``low`` and ``high``."""
    span = max(high - low, 1e-9)
    top = len(_SPARKLINE_MARKS) - 1
    return "".join(_SPARKLINE_MARKS[min(top, max(0, round((value - low) / span * top)))] for value in values)


def duration(seconds: float | None) -> str:
    """Format seconds as ``1:02:03``, ``2:03`` or a dash."""
    if seconds is None:
        return DASH
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _number(value: float | None, digits: int, unit: str = "") -> str:
    return DASH if value is None else f"{value:,.{digits}f}{unit}"


def _progress(state: DisplayState, now: float) -> RenderableType:
    done = state.snapshot.update if state.snapshot else 0
    return _row(
        Text(f"update {done}/{state.total_updates}", style="bold"),
        ProgressBar(total=max(1, state.total_updates), completed=done, complete_style=_ACCENT),
        Text(f"{duration(now - state.started)} gone, {duration(state.seconds_left(now))} left"),
    )


def _stage(state: DisplayState, now: float) -> RenderableType:
    name, spent, total = Text(state.stage, style=_ACCENT), duration(now - state.stage_started), state.stage_total
    if total is None:
        return _row(name, "", Text(spent, style="dim"))
    bar = ProgressBar(total=max(1, total), completed=state.stage_done, complete_style=_QUIET)
    return _row(name, bar, Text(f"{state.stage_done}/{total}  {spent}", style="dim"))


def _row(left: RenderableType, middle: RenderableType, right: RenderableType) -> Table:
    row = Table.grid(expand=True, padding=(0, 1))
    row.add_column(no_wrap=True)
    row.add_column(ratio=1)
    row.add_column(no_wrap=True, justify="right")
    row.add_row(left, middle, right)
    return row


def _figures(snapshot: DisplaySnapshot, wide: bool) -> RenderableType:
    cells = (
        ("games", f"{snapshot.games:,}"),
        ("episodes", f"{snapshot.episodes:,}"),
        ("games/h", _number(snapshot.games_per_hour, 0)),
        ("decisions/s", _number(snapshot.decisions_per_second, 0)),
        ("tokens/s", _number(snapshot.completion_tokens_per_second, 0)),
        ("learner tok/s", _number(snapshot.learner_tokens_per_second, 0)),
        ("staleness", _number(snapshot.staleness, 1)),
        ("loss", _number(snapshot.loss, 4)),
        ("KL", _number(snapshot.kl, 4)),
        ("entropy", _number(snapshot.entropy, 3)),
    )
    grid = Table.grid(expand=True, padding=(0, 2))
    columns = 5 if wide else 4
    for _ in range(columns):
        grid.add_column(no_wrap=True)
    texts = [Text.assemble((f"{name} ", "dim"), (value, "bold")) for name, value in cells]
    for start in range(0, len(texts), columns):
        grid.add_row(*texts[start : start + columns])
    return grid


def _roles(state: DisplayState, snapshot: DisplaySnapshot, width: int) -> RenderableType:
    columns = [column for column in _columns(snapshot.measured) if width >= column.from_width]
    table = Table(expand=True, box=None, padding=(0, 1), header_style="dim")
    for column in columns:
        table.add_column(column.header, justify=column.justify, width=column.width, no_wrap=True)
    seen = [value for values in state.history.values() for value in values]
    low, high = (min(seen), max(seen)) if seen else (0.0, 1.0)
    for number, (role, summary) in enumerate(snapshot.roles.items()):
        course = sparkline(state.history.get(role, ()), low, high)
        color = _COLORS.get(role, list(_COLORS.values())[number % len(_COLORS)])
        cells: dict[str, RenderableType] = {_ROLE: Text(role_label(role), style=color), _BAR: "", _COURSE: ""}
        if summary is not None:
            cells |= _cells(snapshot.measured, summary, state.first_values.get(role), course, color)
        table.add_row(*(cells.get(column.name, DASH) for column in columns))
    return table


def _columns(measured: RoleMeasures) -> Iterator[_Column]:
    """The main measure with its bar and course, then the others; a narrow terminal has the first and last of them."""
    yield _Column(_ROLE, measured.role_name, justify="left")
    yield _Column(measured.main.name, measured.main.heading)
    yield _Column(_BAR, "", from_width=76, width=_BAR_CELLS, justify="left")
    yield _Column(_CHANGE, "change")
    yield _Column(_COURSE, "course", from_width=_WIDE, width=SPARKLINE_POINTS, justify="left")
    yield _Column(_REWARD, "reward")
    others = measured.trained[1:]
    for measure in others:
        yield _Column(measure.name, measure.heading, from_width=0 if measure in (others[0], others[-1]) else _WIDE)
    yield _Column(_EPISODES, "episodes", from_width=_WIDE)


def _cells(
    measured: RoleMeasures, summary: RoleSummary, first: float | None, course: str, color: str
) -> dict[str, RenderableType]:
    """Return a role's cells by column name."""
    main = measured.main
    value = summary.values[main.name]
    change = None if first is None else value - first
    change_style = "dim" if not change else "green" if change > 0 else "red"
    full = (main.high if main.goal is None else main.goal) - main.low
    cells = min(_BAR_CELLS, round((value - main.low) * _BAR_CELLS / full)) if 0 < full < math.inf else 0
    signed = "+.0%" if main.kind == "share" else f"+.{main.digits}f"
    return {
        **{
            measure.name: measure.shown(summary.values[measure.name]) if measure.name in summary.values else DASH
            for measure in measured.trained
        },
        _BAR: Text("█" * cells, style=color),
        _CHANGE: Text(DASH if change is None else f"{change:{signed}}", style=change_style),
        _COURSE: Text(course, style=color),
        _REWARD: f"{summary.reward:.2f}",
        _EPISODES: Text(str(summary.episodes), style="dim"),
    }


def _short(roles: Iterable[str]) -> dict[str, str]:
    """Three letters of each role, where these tell them apart."""
    short = {role: role[:3] for role in roles}
    return short if len(set(short.values())) == len(short) else {role: role for role in short}
