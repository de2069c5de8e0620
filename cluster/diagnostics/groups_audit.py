"""The groups in a run's audit records: the baselines of its samples, and the variance that keys explain."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import msgspec

from cluster.errors import RunError
from cluster.runs.folder import RunFolder
from grpo_core.advantages.grouping import CLUSTER_FACTS, RUNNING_LEVEL, parse_expression
from grpo_core.errors import GroupingError, one_line
from grpo_core.files import read_json
from grpo_core.settings import OUTCOME_KEYS
from grpo_core.training.audit import AUDIT_SCHEMA

Record = Mapping[str, Any]

BEST = 3  # undeclared keys that the gradient audit measures

# The types of what is read of a record; any number is small enough that sums of many are finite.
_Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
_Number = Annotated[float, msgspec.Meta(ge=-1e100, le=1e100)]
_Name = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]

#: Metrics of the records that are followed over the updates, with display names.
FOLLOWED = {
    "zero_variance_fraction": "zero variance",
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


class _SchemaOnly(msgspec.Struct):
    schema: int


class _Group(msgspec.Struct):
    level: _Name
    size: _Count
    judged: _Count
    zero_variance: bool


class _Sums(msgspec.Struct):
    between: _Number
    within: _Number
    left_out: _Number
    groups: _Number
    by_country: _Number


class _Explained(msgspec.Struct):
    samples: _Count
    keys: dict[_Name, _Sums]
    same: dict[_Name, _Name]


class _Record(msgspec.Struct):
    version: _Count
    keys: list[_Name]
    cluster_features: list[_Name]
    turn_facts: list[_Name]
    outcome_keys_allowed: bool
    groups: list[_Group]
    explained: _Explained
    metrics: dict[_Name, _Number | None]


@dataclass(frozen=True, slots=True)
class LevelAudit:
    """One key expression over all updates, or the running baseline."""

    level: str
    judged: int  # samples whose baseline is of this level
    judged_fraction: float  # of all samples
    groups: int
    mean_size: float  # members a group
    zero_variance_fraction: float  # of the judged samples; 0 without any


@dataclass(frozen=True, slots=True)
class KeyAudit:
    """The share of the returns' variance that the means of one candidate key's groups explain, over all samples."""

    key: str
    place: int | None  # in the declared chain, from 1; None if not declared
    updates: int  # whose records have the key
    leave_one_out_r2: float  # at most 1; below 0 where the groups' means mislead
    eta_squared: float  # [0, 1]; grows with the number of groups whatever they mean
    groups: float  # mean number in one update
    by_country_fraction: float  # of samples with their country's mean as baseline, because their group was too small


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
    """The findings that ``entente groups audit`` prints."""

    run: str
    first_version: int
    last_version: int
    updates: int
    samples: int
    levels: tuple[LevelAudit, ...]  # from fine to coarse, the running baseline last
    keys: tuple[KeyAudit, ...]  # declared and not, the best first; empty where no record has keys
    recommended: str | None  # the key of the largest leave-one-out R squared that is known before acting
    trends: Mapping[str, Trend]  # by the metric's name in the records
    outcome_keys_allowed: bool  # in any update
    leaks: Mapping[str, str]  # expression -> why its facts were not known before acting

    @property
    def best_undeclared(self) -> tuple[str, ...]:
        """The undeclared keys that explain most and are known before acting, at most three."""
        return tuple(each.key for each in self.keys if each.place is None and each.key not in self.leaks)[:BEST]


def read_records(run_dir: Path) -> list[Record]:
    """The run's audit records, in order of versions.

    Raises RunError if there is no run, it has another format or no records, or one of them is damaged.
    """
    folder = RunFolder(run_dir)
    if not folder.config.exists():
        raise RunError(f"{run_dir} is no run (no config.toml); give the folder of one, e.g. runs/demo")
    folder.check_format()
    paths = sorted(folder.audit.glob("[0-9]*.json"))
    if not paths:
        raise RunError(f"{run_dir} has no audit records (audit/*.json); the first is written after one update")
    return [_record(path) for path in paths]


def _record(path: Path) -> Record:
    try:
        record: Any = read_json(path)
        schema = msgspec.convert(record, _SchemaOnly).schema
        if schema != AUDIT_SCHEMA:
            raise RunError(f"{path} is of schema {schema}, and this version of Entente reads {AUDIT_SCHEMA}")
        explained = msgspec.convert(record, _Record).explained
        if unknown := sorted(set(explained.same.values()) - explained.keys.keys()):
            raise ValueError(f"it has no sums of {unknown[0]}")
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise RunError(f"{path} is no audit record ({one_line(error, 200)}); remove it to go on") from None
    return record  # type: ignore[no-any-return]


def audit_groups(run: str, records: Sequence[Record]) -> GroupsAudit:
    """Summarise the records, of which there is at least one."""
    keys = explained_by_keys(records)
    expressions = list(dict.fromkeys(expression for record in records for expression in record["keys"]))
    leaks: dict[str, str] = {}
    for record in records:
        leaks |= find_leaks(
            record["keys"], record["cluster_features"], record["turn_facts"], record.get("role_name", "country")
        )
    best = recommended_key(keys, leaks)
    samples = sum(group["judged"] for record in records for group in record["groups"])
    return GroupsAudit(
        run=run,
        first_version=records[0]["version"],
        last_version=records[-1]["version"],
        updates=len(records),
        samples=samples,
        levels=tuple(_level(level, records, samples) for level in (*expressions, RUNNING_LEVEL)),
        keys=keys,
        recommended=None if best is None else best.key,
        trends={name: trend for name in FOLLOWED if (trend := _trend(name, records)) is not None},
        outcome_keys_allowed=any(record["outcome_keys_allowed"] for record in records),
        leaks=leaks,
    )


def find_leaks(
    expressions: Sequence[str], cluster_features: Sequence[str], turn_facts: Collection[str], role_name: str = "country"
) -> dict[str, str]:
    """Expressions whose groups depend on facts from after the actions, each with the reason.

    They name an outcome, bins of a turn's fact, or clusters where ``cluster_features`` names either of these.
    """
    leaks: dict[str, str] = {}
    late = sorted((OUTCOME_KEYS | set(turn_facts)).intersection(cluster_features))
    for expression in expressions:
        try:
            facts = parse_expression(expression, False, turn_facts, role_name=role_name)
        except GroupingError as error:
            leaks[expression] = str(error)
            continue
        clusters = [fact for fact in facts if fact in CLUSTER_FACTS]
        if clusters and late:
            leaks[expression] = (
                f"key expression {expression!r} uses {clusters[0]!r}, made by grouping.cluster_features from "
                f"{', '.join(late)}, known only after the actions it would judge; name facts that are known before"
            )
    return leaks


def explained_by_keys(records: Sequence[Record]) -> tuple[KeyAudit, ...]:
    """The variance that each candidate key explains over all records that have it, the best first.

    Undeclared keys that made the same groups as another one in every update are left out.
    """
    explained = [record["explained"] for record in records if record.get("explained")]
    declared = list(records[-1]["keys"]) if records else []
    found = []
    for key in dict.fromkeys(key for each in explained for key in (*each["keys"], *each["same"])):
        if key not in declared and not any(key in each["keys"] for each in explained):
            continue
        known = [each for each in explained if key in each["keys"] or key in each["same"]]
        rows = [each["keys"][each["same"].get(key, key)] for each in known]
        total = sum(row["between"] + row["within"] for row in rows)
        if total == 0:
            continue
        found.append(
            KeyAudit(
                key=key,
                place=declared.index(key) + 1 if key in declared else None,
                updates=len(rows),
                leave_one_out_r2=1 - sum(row["left_out"] for row in rows) / total,
                eta_squared=sum(row["between"] for row in rows) / total,
                groups=sum(row["groups"] for row in rows) / len(rows),
                by_country_fraction=_fraction(
                    sum(row["by_country"] for row in rows), sum(each["samples"] for each in known)
                ),
            )
        )
    # Among equals a declared key comes first, then the coarser one.
    return tuple(sorted(found, key=lambda each: (-round(each.leave_one_out_r2, 6), each.place is None, each.groups)))


def recommended_key(keys: Sequence[KeyAudit], leaks: Collection[str]) -> KeyAudit | None:
    """The first of ``keys``, which are sorted from the best, that every update has and that is no leak; else None."""
    updates = max((each.updates for each in keys), default=0)
    return next((each for each in keys if each.updates == updates and each.key not in leaks), None)


def _level(level: str, records: Sequence[Record], samples: int) -> LevelAudit:
    groups = [group for record in records for group in record["groups"] if group["level"] == level]
    judged = sum(group["judged"] for group in groups)
    return LevelAudit(
        level=level,
        judged=judged,
        judged_fraction=_fraction(judged, samples),
        groups=len(groups),
        mean_size=_fraction(sum(group["size"] for group in groups), len(groups)),
        zero_variance_fraction=_fraction(sum(group["judged"] for group in groups if group["zero_variance"]), judged),
    )


def _trend(name: str, records: Sequence[Record]) -> Trend | None:
    values = [record["metrics"][name] for record in records if record["metrics"].get(name) is not None]
    if not values:
        return None
    third = max(1, len(values) // 3)
    middle = values[third:-third] or values
    return Trend(fmean(values[:third]), fmean(middle), fmean(values[-third:]), min(values), max(values))


def _fraction(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
