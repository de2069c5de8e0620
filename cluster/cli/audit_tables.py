"""The audit of groups on a terminal, from 80 columns."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cluster.diagnostics.gradient_audit import BATCH, GradientAudit
from cluster.diagnostics.groups_audit import FOLLOWED, GroupsAudit, KeyAudit
from grpo_core.gradients.quality import Interval

MOST_KEYS = 12  # rows of undeclared keys


def show(audit: GroupsAudit, console: Console) -> None:
    """Print the baselines' levels, what keys explain, the metrics' trends, and the leak check."""
    updates = f"updates {audit.first_version}-{audit.last_version}"
    console.print(f"{audit.run}: {updates}, {audit.updates} records, {audit.samples:,} samples", markup=False)
    console.print(_levels(audit))
    console.print("zero: samples in zero-variance groups", style="dim")
    _show_keys(audit, console)
    console.print(_trends(audit))
    for expression, reason in audit.leaks.items():
        console.print(f"leak: {expression}: {reason}", style="red", markup=False)
    if not audit.leaks:
        console.print("leak check: every key is known before the actions it judges", markup=False)
    if audit.outcome_keys_allowed:
        console.print("outcome keys were allowed (grouping.allow_outcome_keys): estimates may be biased", style="red")


def show_gradients(audit: GradientAudit, console: Console) -> None:
    """Print bias and noise of the gradient under each way of grouping."""
    share = "" if audit.turns == audit.turns_of_batch else f" of {audit.turns_of_batch:,}"
    console.print(
        f"\ngradient of the batch of update {audit.batch_version + 1}: {audit.blocks} line-up blocks, "
        f"{audit.turns:,}{share} turns, at checkpoint {audit.checkpoint}",
        markup=False,
        highlight=False,
    )
    table = _table("judged by", "bias", "deviation", "effective samples")
    for name, way in audit.ways.items():
        gain = way.effective_samples
        effective = "" if gain is None else "1" if name == BATCH else _interval(gain)
        table.add_row(name, _interval(way.bias), _interval(way.deviation), effective)
    console.print(table)
    console.print(
        "bias: length of the mean difference to the reference, which leaves the judged episode out of the mean of its "
        f"{' < '.join(audit.reference)}; deviation: of the batch's gradient, from block to block; both in lengths of "
        "the reference. effective samples: how many times the batch that its mean would need for as little noise (the "
        "judged episode left out). Below: 95% intervals from what sets the blocks apart.",
        style="dim",
        markup=False,
        highlight=False,
    )
    noise = audit.reference_noise
    console.print(
        f"noise makes {noise:.0%} of the reference's squared length"
        + (": one batch cannot tell its direction; compare rows, not lengths" if noise > 0.5 else ""),
        highlight=False,
    )


def as_json(audit: GroupsAudit, gradients: GradientAudit | None) -> str:
    """All findings as JSON; numbers that are not finite are null."""
    found = {**asdict(audit), "gradients": None if gradients is None else asdict(gradients)}
    return json.dumps(_plain(found), indent=2, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def recommendation(keys: Sequence[KeyAudit], recommended: str) -> str:
    """The recommended key in one line, beside the first declared one."""
    best = next(each for each in keys if each.key == recommended)
    said = f"recommended: {best.key}, R² {best.leave_one_out_r2:.3f}, "
    if best.leave_one_out_r2 <= 0:
        return said + "yet no key takes anything off the variance: too few samples a group"
    if best.place == 1:
        return said + "declared first"
    said += "NOT DECLARED" if best.place is None else f"declared as number {best.place}"
    first = next((each for each in keys if each.place == 1), None)
    return said if first is None else f"{said} ({first.key}: {first.leave_one_out_r2:.3f})"


def _show_keys(audit: GroupsAudit, console: Console) -> None:
    if not audit.keys:
        console.print("variance explained: left out, no record says what keys explain (made by an earlier version, or "
                      "returns do not vary)", markup=False)  # fmt: skip
        return
    table = _table("key", "declared", "R²", "eta²", "groups", "by country")
    undeclared = [each.key for each in audit.keys if each.place is None]
    shown = [each for each in audit.keys if each.place is not None or each.key in undeclared[:MOST_KEYS]]
    for each in shown:
        table.add_row(
            each.key,
            "" if each.place is None else str(each.place),
            f"{each.leave_one_out_r2:.3f}",
            f"{each.eta_squared:.3f}",
            f"{each.groups:.1f}",
            f"{each.by_country_fraction:.1%}",
        )
    console.print(table)
    left = len(audit.keys) - len(shown)
    console.print(
        "share of the returns' variance over all samples that groups' means explain: R² with the judged episode left "
        "out, eta² with it; by country: samples whose group was too small, so that their country's mean judged"
        + (f"; {left} lesser keys are not shown" if left else ""),
        style="dim",
        highlight=False,
    )
    said = "recommended: none, every key is made from outcomes"
    if audit.recommended is not None:
        said = recommendation(audit.keys, audit.recommended)
    console.print(said, markup=False, highlight=False, style="bold")


def _levels(audit: GroupsAudit) -> Table:
    table = _table("key", "judged", "share", "groups", "size", "zero")
    for level in audit.levels:
        table.add_row(
            level.level,
            f"{level.judged:,}",
            f"{level.judged_fraction:.1%}",
            f"{level.groups:,}",
            f"{level.mean_size:.1f}",
            f"{level.zero_variance_fraction:.1%}",
        )
    return table


def _trends(audit: GroupsAudit) -> Table:
    table = _table("metric", "first third", "middle", "last third", "least", "largest")
    for name, trend in audit.trends.items():
        values = (trend.first, trend.middle, trend.last, trend.least, trend.largest)
        table.add_row(FOLLOWED[name], *(f"{value:.4g}" for value in values))
    return table


def _table(first: str, *others: str) -> Table:
    """Make a table that folds names, never numbers, in a narrow terminal."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold", min_width=12)
    for name in others:
        table.add_column(name, justify="right", min_width=6, no_wrap=True)
    return table


def _interval(found: Interval) -> str:
    if not math.isfinite(found.value):
        return "-"
    return f"{_short(found.value)}\n[dim]{_short(found.low)}..{_short(found.high)}[/]"


def _short(number: float) -> str:
    return f"{number:.2f}" if abs(number) < 10 else f"{number:,.0f}" if abs(number) < 1e4 else f"{number:.0e}"
