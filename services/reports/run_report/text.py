"""The texts and tables of a run's report, as HTML; all texts from files are escaped."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_core.errors import one_line
from grpo_core.statistics.estimate import Estimate, difference
from grpo_core.types import Measure, RoleMeasures
from services.reports.run_report.charts.roles import anchors, until
from services.reports.run_report.configuration import value_text
from services.reports.run_report.data import MUTED, RunData, interval
from services.reports.run_report.table import table

_DASH = "–"
_MOST_NAMED = 12  # opponents that are listed


def even_note(measured: RoleMeasures) -> str:
    """Say what the dotted line of a chart is; empty without one."""
    main = measured.main
    if main.even is None:
        return ""
    said = main.even_note or f"that each of {measured.seats} equal players gets"
    return html.escape(f"Dotted: an even share, the {main.shown(main.even)} {said}.")


def sentence(text: str) -> str:
    """The text with a capital letter first."""
    return text[:1].upper() + text[1:]


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


def players(run: RunData) -> str:
    """Return the policy's size, and the opponents of training and of evaluations."""
    trained = _opponents(run) if run.measured.opponents else ""
    rows = [
        ("Policy", _policy(run)),
        ("Trained against", trained),
        (f"Evaluated {run.measured.versus}", _evaluated(run)),
    ]
    cells = [f"<div><dt>{name}</dt><dd>{html.escape(text)}</dd></div>" for name, text in rows if text]
    return f'<dl class="players card">{"".join(cells)}</dl>' if cells else ""


def _policy(run: RunData) -> str:
    size, policy = run.summary.get("policy") or {}, run.config.get("policy", {})
    count, trained = size.get("parameters"), size.get("trained_parameters")
    parts = [f"{parameters_text(count)} parameters"] if count is not None else []
    if trained is not None and trained != count:
        parts.append(
            f"{parameters_text(trained)} of them trained"
            if trained < (count or 0)
            else f"{parameters_text(trained)} trained"
        )
    if policy.get("path"):
        parts.append(
            f"from {value_text(policy['path']).rstrip('/').rpartition('/')[2]}"
        )  # reports are shared; paths are not
    elif policy:
        parts.append(
            f"{policy.get('architecture')}, {policy.get('layers')} layers of width {policy.get('hidden_size')}"
        )
        parts.append("started from imitation" if run.summary.get("imitation") else "started from random weights")
    if policy.get("use_peft"):
        each = f"for each {run.measured.role_name}, " if policy.get("specialists") else ""
        parts.append(f"LoRA adapters {each}of rank {policy.get('lora_r')}")
    return one_line(", ".join(parts))


def _opponents(run: RunData) -> str:
    opponents = run.config.get("opponents", {})
    members = opponents.get("members")
    drawn = {str(name): weight for name, weight in members.items() if weight} if isinstance(members, Mapping) else {}
    parts = [name if len(drawn) == 1 else f"{name} (weight {value_text(weight)})" for name, weight in drawn.items()]
    more = len(parts) - _MOST_NAMED
    parts = [*parts[:_MOST_NAMED], f"{more} more"] if more > 0 else parts
    if opponents.get("snapshot_every"):
        parts.append(f"frozen snapshots of itself, one every {value_text(opponents['snapshot_every'])} updates")
    elif opponents.get("promote_margin"):
        parts.append("frozen snapshots of itself")
    if opponents.get("self_play_seats"):
        parts.append(f"itself in {value_text(opponents['self_play_seats'])} seats")
    return one_line(", ".join(parts))


def _evaluated(run: RunData) -> str:
    names = anchors(run)
    shown = [run.measured.others(name) for name in names[:_MOST_NAMED]]
    return one_line(", ".join([*shown, f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else shown))


def parameters_text(count: float) -> str:
    """Format a number of parameters with three digits, e.g. ``1.24 million``."""
    for limit, name in ((1e9, "billion"), (1e6, "million")):
        if count >= limit:
            scaled = count / limit
            return f"{scaled:,.{2 if scaled < 10 else 1 if scaled < 100 else 0}f} {name}"
    return f"{count:,.0f}"


def headlines(run: RunData) -> str:
    """Return the first and last evaluation, one card per opponent."""
    cards = [
        _headline([row for row in run.course if row["against"] == anchor], run.measured) for anchor in anchors(run)
    ]
    return f'<section class="headlines" aria-label="Results">{"".join(cards)}</section>' if cards else ""


def _headline(rows: Sequence[Mapping[str, Any]], measured: RoleMeasures) -> str:
    before, after, main = rows[0], rows[-1], measured.main
    title = f"{sentence(main.brief)} {measured.versus} {after['against']}{until(after)}"
    numbers, change = f"<b>{_shown(after, main)}</b>", ""
    if len(rows) > 1:
        numbers = f'<span class="soft">{_shown(before, main)}</span> → {numbers}'
        change = _change(difference(*(_estimate(row, main) for row in (before, after))), main)
    spread = _interval(after, main)
    about = [f"{_interval(before, main)} → {spread}" if len(rows) > 1 else spread]
    second = [f"{_with_interval(after, each)} {html.escape(each.heading)}" for each in measured.leading[1:]]
    about.append(", ".join([f"{_count(after.get('games'))} games", *second]))
    if main.even is not None:
        about.append(f"an even share is {main.shown(main.even)}")
    return (
        f'<article class="card headline"><h2>{html.escape(title)}</h2><div class="numbers">{numbers}</div>'
        f'{change}<p class="soft">{"<br>".join(about)}</p></article>'
    )


def _estimate(row: Mapping[str, Any], main: Measure) -> Estimate:
    low, high = interval(row, main) or (None, None)
    return Estimate(row[main.row_name], low, high, row.get("games") or 0)


def _change(found: Estimate, main: Measure) -> str:
    direction = "up" if found.mean > 0 else "down" if found.mean < 0 else ""
    form = "+.0%" if main.kind == "share" else f"+.{main.digits}f"
    spread = "" if found.interval is None else " [{:{form}}, {:{form}}]".format(*found.interval, form=form)
    return f'<p class="change {direction}">{found.mean:{form}}{spread}</p>'


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
    measured = run.measured
    main, others = measured.main, measured.measures[1:]
    headings = (main.heading, "95% interval", *(measure.heading for measure in others))
    head = ("checkpoint", measured.versus, "games", *headings)
    rows = [
        [
            f"{row.get('checkpoint', '')}{', muted' if row.get('label') == MUTED else ''}",
            str(row["against"]),
            _count(row.get("games")),
            _shown(row, main),
            _interval(row, main),
            *(_with_interval(row, measure) for measure in others),
        ]
        for row in run.evaluations
    ]
    notes = [measure.note for measure in reversed(measured.measures) if measure.note]
    notes.append("Brackets hold 95% intervals.")
    is_even = main.even is not None
    if main.even is not None:
        shares = ["" if each.even is None else each.shown(each.even) for each in others]
        rows.append(["an even share", "", "", main.shown(main.even), "", *shares])
        said = [measure.even_row for measure in measured.measures if measure.even_row]
        each_has = f"The last row is what each of {measured.seats} equals has"
        notes.append(f"{each_has}: {', and '.join(said)}." if said else f"{each_has}.")
    note = html.escape(" ".join(notes))
    shown = table(head, rows, texts=2, name="Evaluations", last_apart=is_even)
    return f'<section id="evaluations"><h2>Evaluations</h2><p class="soft">{note}</p>{shown}</section>'


def _interval(row: Mapping[str, Any], measure: Measure) -> str:
    ends = interval(row, measure)
    return "no interval" if ends is None else f"[{measure.shown(ends[0])}, {measure.shown(ends[1])}]"


def _shown(row: Mapping[str, Any], measure: Measure) -> str:
    value = row.get(measure.row_name)
    return _DASH if value is None else measure.shown(value)


def _with_interval(row: Mapping[str, Any], measure: Measure) -> str:
    """Return a measure; a share with its 95% interval, where the evaluation has one."""
    ends = interval(row, measure) if measure.kind == "share" and row.get(measure.row_name) is not None else None
    return _shown(row, measure) + ("" if ends is None else f" {_interval(row, measure)}")


def _count(value: Any) -> str:
    return _DASH if value is None else f"{value:,.0f}"


def _duration(seconds: Any) -> str:
    if seconds is None:
        return _DASH
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
