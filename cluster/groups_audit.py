"""What a run's audit records say about its groups: who was judged how, with what signal, and what keys explain."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cluster.errors import RunError
from cluster.run_folder import RunFolder
from grpo_core.errors import GroupingError
from grpo_core.grouping import RUNNING_LEVEL, parse_expression

Record = Mapping[str, Any]

#: Metrics of the records that are followed over the updates, and what they are called.
FOLLOWED = {
    "zero_signal_fraction": "without signal",
    "fallback_fraction": "fell back",
    "running_baseline_fraction": "running baseline",
    "staleness_mean": "staleness, mean",
    "staleness_max": "staleness, largest",
    "ratio_mean": "ratio, mean",
    "ratio_max": "ratio, largest",
    "clip_fraction_low": "clipped below",
    "clip_fraction_high": "clipped above",
    "approx_kl": "KL, nats a token",
    "fresh_logprob_gap": "fresh logprob gap",
    "grad_norm": "gradient norm",
}


@dataclass(frozen=True, slots=True)
class LevelAudit:
    """One key expression over all updates, or the running baseline."""

    level: str
    judged: int  # samples this level decided
    judged_fraction: float  # of all samples
    groups: int
    mean_size: float  # members a group
    zero_signal_fraction: float  # of the judged samples; 0 where none were judged
    coverage: float | None  # members of groups with statistics of their own / all samples; the next two speak of them
    eta_squared: float | None  # [0, 1]; None for the running baseline, or where returns do not vary
    leave_one_out_r2: float | None  # at most eta_squared; below 0 where the groups' means mislead


@dataclass(frozen=True, slots=True)
class Trend:
    """One metric over the updates: the means of their three thirds, and the extremes."""

    first: float
    middle: float
    last: float
    least: float
    largest: float


@dataclass(frozen=True, slots=True)
class GroupsAudit:
    """Everything ``entente groups audit`` prints."""

    run: str
    first_version: int
    last_version: int
    updates: int
    samples: int
    levels: tuple[LevelAudit, ...]  # from fine to coarse, the running baseline last
    trends: Mapping[str, Trend]  # by the metric's name in the records
    outcome_keys_allowed: bool  # in any update
    leaks: Mapping[str, str]  # expression -> why its facts were not known before acting


def read_records(run_dir: Path) -> list[Record]:
    """The run's audit records, in order of versions.

    Raises:
        RunError: there is no run, it has no records, or one of them is damaged.
    """
    folder = RunFolder(run_dir)
    if not folder.config.exists():
        raise RunError(f"{run_dir} is no run (no config.toml); give the folder of one, e.g. runs/demo")
    paths = sorted(folder.audit.glob("[0-9]*.json"))
    if not paths:
        raise RunError(f"{run_dir} has no audit records (audit/*.json); the first is written after one update")
    return [_record(path) for path in paths]


def _record(path: Path) -> Record:
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
        _ = [record[name] for name in ("version", "keys", "outcome_keys_allowed", "metrics")]
        _ = [group[name] for group in record["groups"] for name in ("level", "size", "judged", "mean", "std", "zero")]
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise RunError(f"{path} is no audit record ({type(error).__name__}: {error}); remove it to go on") from None
    return record  # type: ignore[no-any-return]


def audit_groups(run: str, records: Sequence[Record]) -> GroupsAudit:
    """Sum the records (at least one) up."""
    expressions = list(dict.fromkeys(expression for record in records for expression in record["keys"]))
    samples = sum(group["judged"] for record in records for group in record["groups"])
    return GroupsAudit(
        run=run,
        first_version=records[0]["version"],
        last_version=records[-1]["version"],
        updates=len(records),
        samples=samples,
        levels=tuple(_level(level, records, samples) for level in (*expressions, RUNNING_LEVEL)),
        trends={name: trend for name in FOLLOWED if (trend := _trend(name, records)) is not None},
        outcome_keys_allowed=any(record["outcome_keys_allowed"] for record in records),
        leaks=find_leaks(expressions),
    )


def find_leaks(expressions: Sequence[str]) -> dict[str, str]:
    """Expressions that name a fact known only after the actions it judges, each with the reason."""
    leaks: dict[str, str] = {}
    for expression in expressions:
        try:
            parse_expression(expression, False)
        except GroupingError as error:
            leaks[expression] = str(error)
    return leaks


def explained_variance(groups_by_update: Sequence[Sequence[Record]]) -> tuple[float, float] | None:
    """Share of the returns' variance that the groups' means explain: eta squared, and leave-one-out R squared.

    With n members, mean m and Bessel-corrected deviation s a group, and M the mean of all members of an update:
    between = sum n (m - M)^2, within = sum (n - 1) s^2, eta^2 = between / (between + within) (Fisher's correlation
    ratio). It grows with the number of groups whatever they mean; R^2 judges every member by the mean of the
    others, whose squared errors add up to sum n^2 s^2 / (n - 1). Sums run over updates, so that what the policy
    gains from one to the next counts for neither. None where nothing varies. Groups whose mean was shrunk toward
    their parent's (``share`` below 1) are left out: it is not their members' mean.
    """
    between = within = left_out = 0.0
    for groups in groups_by_update:
        known = [group for group in groups if _has_own_statistics(group)]
        members = sum(group["size"] for group in known)
        center = sum(group["size"] * group["mean"] for group in known) / members if members else 0.0
        for group in known:
            size, variance = group["size"], group["std"] ** 2
            between += size * (group["mean"] - center) ** 2
            within += (size - 1) * variance
            left_out += size**2 * variance / (size - 1) if size > 1 else 0.0
    total = between + within
    return None if total == 0 else (between / total, 1 - left_out / total)


def _has_own_statistics(group: Record) -> bool:
    return group["mean"] is not None and group["std"] is not None and group.get("share", 1.0) == 1.0


def _level(level: str, records: Sequence[Record], samples: int) -> LevelAudit:
    by_update = [[group for group in record["groups"] if group["level"] == level] for record in records]
    groups = [group for update in by_update for group in update]
    judged = sum(group["judged"] for group in groups)
    own = sum(group["size"] for group in groups if _has_own_statistics(group))
    # The running baseline was made from earlier batches: its mean says nothing of this one's variance.
    explained = None if level == RUNNING_LEVEL else explained_variance(by_update)
    return LevelAudit(
        level=level,
        judged=judged,
        judged_fraction=_fraction(judged, samples),
        groups=len(groups),
        mean_size=_fraction(sum(group["size"] for group in groups), len(groups)),
        zero_signal_fraction=_fraction(sum(group["judged"] for group in groups if group["zero"]), judged),
        coverage=None if level == RUNNING_LEVEL else _fraction(own, samples),
        eta_squared=explained and explained[0],
        leave_one_out_r2=explained and explained[1],
    )


def _trend(name: str, records: Sequence[Record]) -> Trend | None:
    values = [record["metrics"][name] for record in records if record["metrics"].get(name) is not None]
    if not values:
        return None
    third = max(1, len(values) // 3)
    middle = values[third:-third] or values
    return Trend(_mean(values[:third]), _mean(middle), _mean(values[-third:]), min(values), max(values))


def show(audit: GroupsAudit, console: Console) -> None:
    """Print the tables and the leak check."""
    updates = f"updates {audit.first_version}-{audit.last_version}"
    console.print(f"{audit.run}: {updates}, {audit.updates} records, {audit.samples:,} samples", markup=False)
    levels = _table("key", "judged", "share", "groups", "size", "zero", "members", "eta²", "R²")
    for level in audit.levels:
        levels.add_row(
            level.level,
            f"{level.judged:,}",
            f"{level.judged_fraction:.1%}",
            f"{level.groups:,}",
            f"{level.mean_size:.1f}",
            f"{level.zero_signal_fraction:.1%}",
            "" if level.coverage is None else f"{level.coverage:.1%}",
            "" if level.eta_squared is None else f"{level.eta_squared:.3f}",
            "" if level.leave_one_out_r2 is None else f"{level.leave_one_out_r2:.3f}",
        )
    console.print(levels)
    console.print(
        "zero: judged without signal; eta² and R² (leave-one-out): share of the returns' variance that the groups' "
        "means explain, among the members of groups that judged somebody (members, of all samples)",
        style="dim",
    )
    trends = _table("metric", "first third", "middle", "last third", "least", "largest")
    for name, trend in audit.trends.items():
        values = (trend.first, trend.middle, trend.last, trend.least, trend.largest)
        trends.add_row(FOLLOWED[name], *(f"{value:.4g}" for value in values))
    console.print(trends)
    for expression, reason in audit.leaks.items():
        console.print(f"leak: {expression}: {reason}", style="red", markup=False)
    if not audit.leaks:
        console.print("leak check: every key is known before the actions it judges", markup=False)
    if audit.outcome_keys_allowed:
        console.print("outcome keys were allowed (grouping.allow_outcome_keys): estimates may be biased", style="red")


def _table(first: str, *others: str) -> Table:
    """A narrow terminal folds names, never numbers."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="right", min_width=6)
    return table


def _fraction(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
