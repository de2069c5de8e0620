"""What the report reads of a run's files, with types: a file from elsewhere may hold anything else."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import msgspec

from grpo_core.types import RoleMeasures

Number = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)] | None  # sums of many are finite; None: it was not
LARGEST_UPDATE = 10**9  # a run makes some hundreds
Text = Annotated[str, msgspec.Meta(max_length=1000)]
_Interval = tuple[Number, Number] | None
_Plain = Text | Number | bool
Count = Annotated[int, msgspec.Meta(ge=0, le=10**9)]
_MOST_BINS = 100


class _PolicySize(msgspec.Struct):
    parameters: Number = None
    trained_parameters: Number = None


class Summary(msgspec.Struct):
    """The parts of ``summary.json`` that the page shows."""

    run: Text = ""
    commit: Text = ""
    config_digest: Text = ""
    updates: Number = None
    games: Number = None
    episodes: Number = None
    wall_seconds: Number = None
    policy: _PolicySize | None = None
    throughput: dict[Text, Number] = {}
    provenance: dict[Text, _Plain | dict[Text, _Plain]] = {}


@cache
def summary_of(measured: RoleMeasures) -> type[msgspec.Struct]:
    """The type of ``summary.json`` with evaluations by these measures."""
    names = [measure.row_name for measure in measured.measures]
    fields: list[tuple[str, Any, Any]] = [("games", Number, None)]
    for name in names:
        fields += [(name, Number, None), (f"{name}_ci95", _Interval, None)]
    main = names[0]
    cell = msgspec.defstruct("Cell", [field if field[0] != main else (main, Number) for field in fields], kw_only=True)
    known: list[Any] = [
        ("against", Text),
        ("label", Text, ""),
        ("checkpoint", Text | int, ""),
        ("until_year", int | Text, 0),
        (measured.by_role, dict[Text, cell], {}),  # type: ignore[valid-type]
        *fields,
    ]
    evaluation: Any = msgspec.defstruct("Evaluation", known, kw_only=True)
    return msgspec.defstruct("SummaryOfMeasures", [("evaluations", list[evaluation], [])], bases=(Summary,))


class Line(msgspec.Struct):
    """One line of ``metrics.jsonl``."""

    update: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_UPDATE)]
    metrics: dict[Text, Number | list[Number]]


class Group(msgspec.Struct):
    """A group of samples in an audit record."""

    key: list[str | float | bool | None] = []
    level: Text = ""
    size: Count = 0  # members
    judged: Count = 0  # samples whose advantage it decides
    mean: Number = None  # of the members' returns
    std: Number = None
    zero_variance: bool = False


class Spread(msgspec.Struct):
    """The distribution of a role's values in one update; see ``grpo_core.training.distributions``."""

    count: Annotated[int, msgspec.Meta(ge=1, le=10**9)]
    mean: Number
    mean_abs: Number
    quantiles: Annotated[list[Number], msgspec.Meta(min_length=7, max_length=7)]
    first: Annotated[int, msgspec.Meta(ge=-(10**9), le=10**9)] = 0
    bins: Annotated[list[Count], msgspec.Meta(max_length=_MOST_BINS)] = []


class Spreads(msgspec.Struct):
    """The distributions of all roles; bins of the histograms are ``width`` wide."""

    width: Annotated[float, msgspec.Meta(ge=1e-12, le=1e40)]
    roles: dict[Text, Spread] = {}
    all: Spread | None = None  # of the whole batch, without a histogram


class Distributions(msgspec.Struct):
    """An update's distributions before and after normalisation."""

    returns: Spreads
    advantages: Spreads


class Audit(msgspec.Struct):
    """The parts of an audit record that the page shows. Records of earlier versions lack the last ones."""

    version: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_UPDATE)] = 0
    keys: list[Text] = []
    role_name: Text = "country"
    groups: list[Group] = []
    group_weights: dict[Text, Number] = {}
    metrics: dict[Text, Number] = {}
    lengths: list[Number] = []
    distributions: Distributions | None = None
    episodes: list[Text] = []
    roles: list[Text] = []
    rewards: list[Number] = []
    outcomes: dict[Text, list[Number]] = {}
    forks: list[bool] = []  # of the episodes: whether the game did not begin at its world's usual start


class Lineup(msgspec.Struct):
    """One line of ``lineups.jsonl``: whom a block's games are against."""

    index: Annotated[int, msgspec.Meta(ge=0, le=10**12)]
    members: dict[Text, Text] = {}
    version: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_UPDATE)] = 0


Configuration = dict[str, dict[str, Any]]
