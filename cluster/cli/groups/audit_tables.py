"""Tables of ``entente groups audit``, on a terminal from 80 columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from cluster.cli.tables import new_table, plain, print_note
from cluster.diagnostics.groups_audit import FOLLOWED, GroupsAudit, KeyAudit, Record
from cluster.runs.progress_bars import duration_text

if TYPE_CHECKING:  # they import torch, which the tables need not wait for
    from cluster.diagnostics.gradient_audit import GradientAudit
    from grpo_core.gradients.quality import Interval

MOST_KEYS = 12  # rows of undeclared keys
NUMBER_WIDTH = 6
TURN_S = 0.025  # that the gradient of one turn takes


def show(audit: GroupsAudit, console: Console) -> None:
    """Print the baselines' levels, the variance that keys explain, the metrics' trends, and the leak check."""
    updates = f"updates {audit.first_version}-{audit.last_version}"
    console.print(f"{audit.run}: {updates}, {audit.updates} records, {audit.samples:,} samples", markup=False)
    console.print(_levels(audit))
    print_note(console, "zero: samples in zero-variance groups")
    _show_keys(audit, console)
    console.print(_trends(audit))
    for expression, reason in audit.leaks.items():
        console.print(f"leak: {expression}: {reason}", style="red", markup=False)
    if not audit.leaks:
        console.print("leak check: every key is known before the actions it judges", markup=False)
    if audit.outcome_keys_allowed:
        console.print("outcome keys were allowed (grouping.allow_outcome_keys): estimates may be biased", style="red")


def offer_gradients(record: Record, most_turns: int, console: Console) -> None:
    """Print how long ``--gradients`` would take for the batch of the last audit ``record``."""
    turns = min(int(record["metrics"].get("turns") or 0), most_turns)
    cost = f": {turns:,} turns, {duration_text(turns * TURN_S)} for the small policy on one core" if turns else ""
    print_note(console, f"not measured: bias and noise of the gradient under each key; --gradients takes it{cost}")


def show_gradients(audit: GradientAudit, console: Console) -> None:
    """Print bias and noise of the gradient under each way of grouping."""
    share = "" if audit.turns == audit.turns_of_batch else f" of {audit.turns_of_batch:,}"
    console.print(
        f"\ngradient of the batch of update {audit.batch_version + 1}: {audit.blocks} line-up blocks, "
        f"{audit.turns:,}{share} turns, at checkpoint {audit.checkpoint}",
        markup=False,
        highlight=False,
    )
    from cluster.diagnostics.gradient_audit import BATCH

    table = new_table("judged by", "bias", "deviation", "effective samples", number_width=NUMBER_WIDTH)
    for name, way in audit.ways.items():
        gain = way.effective_samples
        effective = "" if gain is None else "1" if name == BATCH else _interval(gain)
        table.add_row(plain(name), _interval(way.bias), _interval(way.deviation), effective)
    console.print(table)
    print_note(
        console,
        "bias: length of the mean difference from the reference, whose baseline is the mean of "
        f"{' < '.join(audit.reference)} without the judged episode; deviation: of the batch's gradient between "
        "blocks; both in lengths of the reference. effective samples: how many times as many samples the batch's mean "
        "needs for the same noise (without the judged episode). Below: 95% intervals over the blocks.",
    )
    noise = audit.reference_noise
    console.print(
        f"noise makes {noise:.0%} of the reference's squared length"
        + (": one batch cannot tell its direction; compare rows, not lengths" if noise > 0.5 else ""),
        highlight=False,
    )


def recommendation(keys: Sequence[KeyAudit], recommended: str) -> str:
    """The recommended key in one line, beside the first declared one."""
    best = next(each for each in keys if each.key == recommended)
    text = f"recommended: {best.key}, R² {best.leave_one_out_r2:.3f}, "
    if best.leave_one_out_r2 <= 0:
        return text + "yet no key reduces the variance: too few samples a group"
    if best.place == 1:
        return text + "declared first"
    text += "NOT DECLARED" if best.place is None else f"declared as number {best.place}"
    first = next((each for each in keys if each.place == 1), None)
    return text if first is None else f"{text} ({first.key}: {first.leave_one_out_r2:.3f})"


def _show_keys(audit: GroupsAudit, console: Console) -> None:
    if not audit.keys:
        console.print("variance explained: left out, no record says what keys explain (made by an earlier version, or "
                      "returns do not vary)", markup=False)  # fmt: skip
        return
    undeclared = [each.key for each in audit.keys if each.place is None]
    shown = [each for each in audit.keys if each.place is not None or each.key in undeclared[:MOST_KEYS]]
    table = new_table("key", "declared", "R²", "eta²", "groups", "by role", number_width=NUMBER_WIDTH)
    for each in shown:
        place, explained = each.place or "", (f"{each.leave_one_out_r2:.3f}", f"{each.eta_squared:.3f}")
        table.add_row(plain(each.key), str(place), *explained, f"{each.groups:.1f}", f"{each.by_country_fraction:.1%}")
    console.print(table)
    left = len(audit.keys) - len(shown)
    print_note(
        console,
        "share of the returns' variance over all samples that the groups' means explain: R² without the judged "
        "episode, eta² with it; by role: samples whose group was too small, so that their role's mean was used"
        + (f"; {left} lesser keys are not shown" if left else ""),
    )
    text = "recommended: none, every key is made from outcomes"
    if audit.recommended is not None:
        text = recommendation(audit.keys, audit.recommended)
    console.print(text, markup=False, highlight=False, style="bold")


def _levels(audit: GroupsAudit) -> Table:
    table = new_table("key", "judged", "share", "groups", "size", "zero", number_width=NUMBER_WIDTH)
    for level in audit.levels:
        share, zero = f"{level.judged_fraction:.1%}", f"{level.zero_variance_fraction:.1%}"
        table.add_row(
            plain(level.level), f"{level.judged:,}", share, f"{level.groups:,}", f"{level.mean_size:.1f}", zero
        )
    return table


def _trends(audit: GroupsAudit) -> Table:
    thirds = ("first third", "middle", "last third")
    table = new_table("metric", *thirds, "least", "largest", number_width=NUMBER_WIDTH)
    for name, trend in audit.trends.items():
        values = (trend.first, trend.middle, trend.last, trend.least, trend.largest)
        table.add_row(FOLLOWED[name], *(f"{value:.4g}" for value in values))
    return table


def _interval(found: Interval) -> str:
    if not math.isfinite(found.value):
        return "-"
    return f"{_short(found.value)}\n[dim]{_short(found.low)}..{_short(found.high)}[/]"


def _short(number: float) -> str:
    return f"{number:.2f}" if abs(number) < 10 else f"{number:,.0f}" if abs(number) < 1e4 else f"{number:.0e}"
