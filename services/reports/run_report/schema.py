"""What the report reads of a run's files, with types: a file from elsewhere may hold anything else."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

Number = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)] | None  # sums of many are finite; None: it was not
LARGEST_UPDATE = 10**9  # a run makes some hundreds
Text = Annotated[str, msgspec.Meta(max_length=1000)]
_Interval = tuple[Number, Number] | None
_Plain = Text | Number | bool


class _Measures(msgspec.Struct):
    mean_centers_ci95: _Interval = None
    win_rate: Number = None
    win_rate_ci95: _Interval = None
    top_rate: Number = None
    top_rate_ci95: _Interval = None
    survival_rate: Number = None
    survival_rate_ci95: _Interval = None
    sum_of_squares: Number = None
    games: Number = None


class _Country(_Measures, kw_only=True):
    mean_centers: Number


class _Evaluation(_Measures, kw_only=True):
    against: Text
    label: Text = ""
    checkpoint: Text | int = ""
    mean_centers: Number = None
    until_year: int | Text = 0
    by_country: dict[Text, _Country] = {}


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
    evaluations: list[_Evaluation] = []
    provenance: dict[Text, _Plain | dict[Text, _Plain]] = {}


class Line(msgspec.Struct):
    """One line of ``metrics.jsonl``."""

    update: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_UPDATE)]
    metrics: dict[Text, Number | list[Number]]


class Audit(msgspec.Struct):
    """The part of an audit record that the page shows."""

    keys: list[Text] = []


Configuration = dict[str, dict[str, Any]]
