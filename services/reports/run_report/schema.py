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


class Audit(msgspec.Struct):
    """The part of an audit record that the page shows."""

    keys: list[Text] = []


Configuration = dict[str, dict[str, Any]]
