"""The texts and tables of a run's report, as HTML; all texts from files are escaped."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from services.reports.run_report.charts import anchors
from services.reports.run_report.data import RunData, interval

_ACCOUNT = re.compile(r"(\w+://)[^/@\s]+@")  # user and password of a URL
_PASSWORD = re.compile(r"([?&]\w*password=)[^&\s]+")  # in a URL's query, of a server or of a key file
_DASH = "–"


def header(run: RunData) -> str:
    """Name, size and warnings."""
    summary = run.summary
    name = html.escape(str(summary.get("run", run.folder.name)))
    parts = [
        f"{_count(summary.get('updates'))} updates",
        f"{_count(summary.get('games'))} games",
        f"{_count(summary.get('episodes'))} episodes",
        _duration(summary.get("wall_seconds")),
        f"commit {html.escape(str(summary.get('commit', 'unknown')))}",
    ]
    warning = ""
    if run.config.get("grouping", {}).get("allow_outcome_keys"):
        warning = (
            '<p class="warning card"><b>Outcome keys were allowed.</b> Groups may have been made from what happened '
            "after the actions they judge; the gradient is biased.</p>"
        )
    return f'<header><h1>{name}</h1><p class="soft">{" · ".join(parts)}</p>{warning}</header>'


def headlines(run: RunData) -> str:
    """Return the first and last evaluation, one card per opponent."""
    cards = [_headline([row for row in run.evaluations if row["against"] == anchor]) for anchor in anchors(run)]
    return f'<section class="headlines" aria-label="Results">{"".join(cards)}</section>' if cards else ""


def _headline(rows: Sequence[Mapping[str, Any]]) -> str:
    before, after = rows[0], rows[-1]
    title = f"Mean centres against {after['against']}, to the end of {after.get('until_year', '?')}"
    numbers, change = f"<b>{_number(after['mean_centers'])}</b>", ""
    if len(rows) > 1:
        numbers = f'<span class="soft">{_number(before["mean_centers"])}</span> → {numbers}'
        difference, half = _difference(before, after)
        direction = "up" if difference > 0 else "down" if difference < 0 else ""
        spread = "" if half is None else f" ± {half:.2f}"
        change = f'<p class="change {direction}">{difference:+.2f}{spread}</p>'
    about = [f"{_interval(before)} → {_interval(after)}" if len(rows) > 1 else _interval(after)]
    about.append(f"{_count(after.get('games'))} games, {_rate(after, 'win_rate')} solos")
    return (
        f'<article class="card headline"><h2>{html.escape(title)}</h2><div class="numbers">{numbers}</div>'
        f'{change}<p class="soft">{"<br>".join(about)}</p></article>'
    )


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[float, float | None]:
    """Return the difference of means and half of its 95% interval, for independent samples, normal approximation."""
    ends = [interval(row, "mean_centers") for row in (before, after)]
    difference = after["mean_centers"] - before["mean_centers"]
    if ends[0] is None or ends[1] is None:
        return difference, None
    return difference, math.hypot(*((high - low) / 2 for low, high in (ends[0], ends[1])))


def facts(run: RunData) -> str:
    """Show the throughput of the whole run."""
    speed = run.summary.get("throughput", {})
    named = (
        ("games / hour", "games_per_hour"),
        ("decisions / s", "decisions_per_second"),
        ("tokens written / s", "completion_tokens_per_second"),
        ("tokens learned / s", "learner_tokens_per_second"),
    )
    cells = [
        f'<div class="card"><dt>{name}</dt><dd>{_count(speed[key])}</dd></div>'
        for name, key in named
        if speed.get(key) is not None
    ]
    return f'<dl class="facts">{"".join(cells)}</dl>' if cells else ""


def evaluations(run: RunData) -> str:
    """Return the table of all evaluations."""
    if not run.evaluations:
        return ""
    head = ("checkpoint", "against", "games", "centres", "95% interval", "solos", "leads", "survives", "squares")
    rows = [
        [
            str(row.get("checkpoint", "")),
            str(row["against"]),
            _count(row.get("games")),
            _number(row.get("mean_centers")),
            _interval(row),
            *(_rate(row, name) for name in ("win_rate", "top_rate", "survival_rate")),
            _number(row.get("sum_of_squares"), 3),
        ]
        for row in run.evaluations
    ]
    note = (
        "Squares: the share of squared centres, 1 for a solo. Leads: games at whose end no power had more centres; "
        "ties count as leads. Brackets hold 95% intervals."
    )
    return f'<section><h2>Evaluations</h2><p class="soft">{note}</p>{_table(head, rows, texts=2)}</section>'


def configuration(run: RunData, defaults: Mapping[str, Mapping[str, Any]] | None) -> str:
    """Return the values that differ from the defaults, and the whole configuration, folded."""
    if not run.config:
        return ""
    whole = html.escape("\n".join(f"{name} = {_value(value)}" for name, value in _flat(run.config)))
    folded = f'<details><summary>The whole configuration</summary><pre class="card">{whole}</pre></details>'
    if defaults is None:
        return f"<section><h2>Configuration</h2>{folded}</section>"
    usual = dict(_flat(defaults))
    rows = [
        [name, _value(value), _value(usual[name]) if name in usual else "unset"]
        for name, value in _flat(run.config)
        if name not in usual or usual[name] != value
    ]
    table = _table(("key", "this run", "default"), rows, texts=3) if rows else "<p>All defaults.</p>"
    note = '<p class="soft">Values that differ from the defaults.</p>'
    return f"<section><h2>Configuration</h2>{note}{table}{folded}</section>"


def provenance(run: RunData) -> str:
    """Return the facts needed to reproduce the run."""
    summary = run.summary
    rows = [
        ["commit", str(summary.get("commit", "unknown"))],
        ["configuration digest", str(summary.get("config_digest", "unknown"))],
        ["seed", str(run.config.get("run", {}).get("seed", "unknown"))],
        *([name.replace(".", " "), _value(value)] for name, value in _flat(summary.get("provenance", {}))),
    ]
    return f"<section><h2>Provenance</h2>{_table(('', ''), rows, texts=2)}</section>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> str:
    """Return a table with ``texts`` columns of text, then columns of numbers."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = ["" if i < texts else ' class="number"' for i in range(len(row))]
        return "".join(f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    top = f"<thead><tr>{cells('th', head)}</tr></thead>" if any(head) else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll card"><table>{top}<tbody>{body}</tbody></table></div>'


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", list(value) if isinstance(value, tuple) else value


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    return _PASSWORD.sub(r"\1***", _ACCOUNT.sub(r"\1***@", str(value)))  # reports are shared; passwords are not


def _interval(row: Mapping[str, Any]) -> str:
    ends = interval(row, "mean_centers")
    return "no interval" if ends is None else f"[{ends[0]:.2f}, {ends[1]:.2f}]"


def _number(value: Any, digits: int = 2) -> str:
    return _DASH if value is None else f"{value:.{digits}f}"


def _rate(row: Mapping[str, Any], name: str) -> str:
    """Return a rate with its 95% interval, where the evaluation has one."""
    if row.get(name) is None:
        return _DASH
    ends = interval(row, name)
    return f"{row[name]:.0%}" + ("" if ends is None else f" [{ends[0]:.0%}, {ends[1]:.0%}]")


def _count(value: Any) -> str:
    return _DASH if value is None else f"{value:,.0f}"


def _duration(seconds: Any) -> str:
    if seconds is None:
        return _DASH
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
