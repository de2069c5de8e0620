"""The one table of metrics; the exporter, metrics.jsonl, dashboards and docs are built from it.

What is measured of the roles of a world, such as countries, depends on the world: ``role_metrics`` makes these
metrics, and ``declare`` adds them in a process that records or reads them. Two worlds may use one name with different
labels; a metric is known by both.

A measurement is named by a *key*: the metric's name alone, or with its labels in the catalogue's order:
``entente_country_centers{country=FRANCE}``, ``entente_evaluation_win_rate{against=dumbbot,country=ITALY}``.
A label's value may be any text; in the key it is one printable line, in which ``%2C`` and such stand for a key's marks.
Its value is, for a counter, the total since the run began (resumes included); for a gauge, the latest
value; for a histogram, the list of observations since the previous record. The ends of an interval have the metric's
name and a suffix: ``entente_country_centers_low`` and ``_high``.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from grpo_core.errors import EntenteError, one_line

if TYPE_CHECKING:  # it brings numpy, and commands read the catalogue's errors at once
    from grpo_core.types import RoleMeasures

Kind = Literal["counter", "gauge", "histogram"]
Value = float | Sequence[float]
_LONGEST_LABEL = 200  # characters
_LABEL = re.compile(r"[a-z][a-z0-9_]*")
PARTNER = "partner"  # the label of the other role of a pair
_RESERVED = frozenset({"against", "instance", "job", "le", PARTNER, "run"})  # labels with another meaning
_MARKS = {ord(mark): f"%{ord(mark):02X}" for mark in "%{},="}  # of a key


class MetricsError(EntenteError, ValueError):
    """A measurement that is not in the catalogue, or a file or port for measurements that cannot be used."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the catalogue."""

    name: str
    kind: Kind
    unit: str  # "1" for plain ratios and counts without a better word
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()  # upper bounds, ascending; histograms only
    whole: bool = False  # a record has all current label values or none: others are dropped
    beside: str = ""  # a record that has this metric has all current label values of this one, perhaps none


def _counter(name: str, unit: str, text: str, labels: tuple[str, ...] = ()) -> Metric:
    return Metric(name, "counter", unit, text, labels)


def _gauge(
    name: str, unit: str, text: str, labels: tuple[str, ...] = (), *, whole: bool = False, beside: str = ""
) -> Metric:
    return Metric(name, "gauge", unit, text, labels, whole=whole, beside=beside)


_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

# The table, in the order in which it is printed; those of a world's roles come between its parts.
_PROGRESS = (
    _counter("entente_updates_total", "updates", "Policy updates made"),
    _counter("entente_games_total", "games", "Training games finished"),
    _counter("entente_episodes_total", "episodes", "Episodes the learner used"),
    _counter("entente_topped_up_episodes_total", "episodes", "Of these, replacements of zero-variance groups"),
    _counter("entente_run_seconds_total", "seconds", "Wall time of training, evaluations and downtime left out"),
    _gauge("entente_policy_version", "version", "The learner's published policy version"),
    _gauge("entente_evaluating", "1", "Whether an evaluation is played: 1, or 0"),
    _gauge("entente_update_seconds", "seconds", "Wall time of the latest update, waiting included"),
    _gauge("entente_updates_planned", "updates", "Updates after which the run is done"),
    _gauge("entente_progress_timestamp_seconds", "seconds", "Unix time of the latest update or evaluation"),
    _gauge("entente_update_timeout_seconds", "seconds", "Time without an update after which the run gives up"),
    _counter("entente_run_restarts_total", "restarts", "Automatic restarts of the run after a loss"),
    _counter("entente_nonfinite_updates_total", "updates", "Updates with a figure that was not finite"),
)

_MACHINERY = (
    # Learning
    _gauge("entente_episode_reward", "reward", "Mean return of this update's episodes"),
    _gauge("entente_reward_part", "reward", "Mean of one unweighted reward part, this update", ("part",)),
    _gauge("entente_loss", "1", "Policy loss, mean over optimizer steps"),
    _gauge("entente_kl", "nats", "KL (k3) of behaviour to learner policy, per trained token"),
    _gauge("entente_entropy", "nats", "Entropy over admissible tokens, per trained token"),
    _gauge("entente_thought_tokens", "tokens", "Mean length of a thought before the orders, this update"),
    _gauge("entente_thought_tokens_max", "tokens", "Longest thought of this update; the limit cuts what is longer"),
    _gauge("entente_clip_fraction", "1", "Share of trained tokens whose ratio was clipped"),
    _gauge("entente_grad_norm", "1", "Mean gradient norm before clipping"),
    _gauge("entente_learning_rate", "1", "Step size of the latest optimizer step"),
    _gauge("entente_zero_variance_fraction", "1", "Share of samples whose group has no variance"),
    _gauge("entente_groups", "groups", "Groups formed at a level of the fallback chain", ("level",), whole=True),
    _gauge("entente_group_size", "samples", "Mean members of the groups of a level", ("level",), whole=True),
    _gauge("entente_ratio_max", "1", "Largest importance ratio of a trained token"),
    _gauge("entente_advantage_std", "1", "Deviation of the advantages"),
    _gauge("entente_fallback_fraction", "1", "Share of samples grouped by a coarser key than the first"),
    _gauge("entente_running_baseline_fraction", "1", "Share of samples with a running baseline"),
    _gauge("entente_group_weight", "1", "Factor on the advantages of a group of weight_key", ("group",), whole=True),
    _gauge("entente_reference_kl", "nats", "KL to the reference policy, per trained token"),
    _gauge("entente_importance_effective_fraction", "1", "Effective share of tokens under off-policy weights"),
    _gauge("entente_importance_masked_fraction", "1", "Share of trained tokens that an off-policy mask dropped"),
    _gauge("entente_gradient_conflict_fraction", "1", "Share of pairs of groups whose gradients conflict"),
    _gauge("entente_gradient_cosine", "1", "Mean cosine of two groups' gradients"),
    _gauge("entente_alignment_loss", "1", "Alignment loss, mean over optimizer steps"),
    _gauge("entente_staleness_updates", "updates", "Mean staleness of trained turns"),
    _gauge("entente_staleness_updates_max", "updates", "Largest staleness of a trained turn"),
    _gauge("entente_staleness_updates_limit", "updates", "Largest staleness that admission allows"),
    # Throughput
    _counter("entente_decisions_total", "decisions", "Decisions the inference engines finished, evaluations left out"),
    _counter("entente_completion_tokens_total", "tokens", "Tokens written, forced ones included, evaluations left out"),
    _counter("entente_prompt_tokens_total", "tokens", "Tokens of the prompts that were answered, evaluations left out"),
    _counter("entente_cached_prompt_tokens_total", "tokens", "Prompt tokens that vLLM had in its prefix cache"),
    _counter("entente_weight_switches_total", "switches", "Switches between full weights in a vLLM engine"),
    _counter("entente_learner_tokens_total", "tokens", "Prompt and completion tokens learned from"),
    _counter("entente_learner_busy_seconds_total", "seconds", "Time the learner spent on updates"),
    _counter(
        "entente_rollout_busy_seconds_total",
        "seconds",
        "Time spent on games, summed over workers, evaluations left out",
    ),
    _counter("entente_overlap_seconds_total", "seconds", "Time that games were played while the learner learned"),
    _gauge("entente_workers", "workers", "Rollout workers alive"),
    _gauge("entente_workers_playing", "workers", "Of these, workers that may get games"),
    _gauge("entente_workers_wanted", "workers", "Rollout workers that the load asks for"),
    _counter("entente_worker_restarts_total", "restarts", "Workers restarted after they died, hung or failed"),
    _gauge("entente_worker_replacements_left", "workers", "Workers that may still fail before the run gives up"),
    _counter("entente_swap_failures_total", "swaps", "Weight swaps that failed", ("cause",)),
    Metric(
        "entente_weight_swap_seconds",
        "histogram",
        "seconds",
        "Publishing a version to an engine using it",
        (),
        _SECONDS,
    ),
    _gauge("entente_weight_bytes", "bytes", "Size of one published version"),
    # Replay
    _gauge("entente_buffer_waiting", "episodes", "Episodes waiting in the replay buffer"),
    _gauge("entente_buffer_delivered", "episodes", "Episodes delivered and not yet acknowledged"),
    _gauge("entente_buffer_bytes", "bytes", "Encoded size of the stored episodes"),
    _gauge("entente_buffer_server_bytes", "bytes", "Memory that the replay server uses"),
    _gauge("entente_buffer_server_bytes_limit", "bytes", "Memory limit of the replay server, where it has one"),
    _counter("entente_duplicate_episodes_total", "episodes", "Episodes dropped because they were stored before"),
    _counter("entente_poison_episodes_total", "episodes", "Undecodable episodes, set aside"),
    _counter("entente_stale_episodes_total", "episodes", "Episodes too old to learn from, set aside"),
    # Play
    _counter("entente_defective_orders_total", "orders", "Orders that were unreadable, illegal or missing"),
    _counter("entente_truncated_decisions_total", "decisions", "Decisions cut off at the length limit"),
    # Opponents
    _gauge(
        "entente_opponent_score",
        "1",
        "The learner's pairwise score against a member, recent",
        ("opponent",),
        whole=True,
    ),
    _counter("entente_opponent_games_total", "games", "Training games with a member", ("opponent",)),
    _gauge("entente_rating", "points", "Rating, 400 points to odds of ten to one", ("player",), whole=True),
    _gauge("entente_rating_deviation", "points", "Its standard deviation", ("player",), whole=True),
    _gauge("entente_population_size", "members", "Members, by whether they may be drawn (active)", ("state",)),
    _counter("entente_promotions_total", "promotions", "Snapshots that joined by their rating"),
)

_REMOTES = (
    _counter("entente_remote_calls_total", "calls", "Calls that the endpoints of remote players answered"),
    _counter("entente_remote_retries_total", "calls", "Attempts of such calls beyond the first"),
    _counter("entente_remote_failures_total", "calls", "Such calls without an answer"),
    _counter("entente_remote_defects_total", "orders", "Orders of remote players that were not legal, or missing"),
    _counter("entente_remote_held_total", "decisions", "Decisions that held all units after a failed call"),
    _counter("entente_remote_prompt_tokens_total", "tokens", "Prompt tokens, as the endpoints count them"),
    _counter("entente_remote_completion_tokens_total", "tokens", "Completion tokens, as the endpoints count them"),
    _counter("entente_remote_usage_unknown_total", "calls", "Calls answered without plausible numbers of tokens"),
    _counter("entente_remote_cost_total", "currency", "Cost of these tokens at the configured prices"),
)

# The metrics that every world has.
METRICS = (*_PROGRESS, *_MACHINERY, *_REMOTES)


def role_metrics(measured: RoleMeasures) -> tuple[Metric, ...]:
    """Make the metrics of a world's roles: their results, their level in the curriculum, and evaluations."""
    return (*_results(measured), _level(measured), *_evaluations(measured))


def whole_table(measured: RoleMeasures) -> tuple[Metric, ...]:
    """All metrics of runs of a world, in the order in which they are printed."""
    return (
        *_PROGRESS,
        *_results(measured),
        *_MACHINERY,
        _level(measured),
        *_REMOTES,
        *_evaluations(measured),
    )


def evaluation_name(measured: RoleMeasures) -> str:
    """The metric of the main measure over all roles; ``entente_evaluation_<row_name>`` is that of each role."""
    main = measured.main
    return f"entente_evaluation_{main.name}" + ("_overall" if main.row_name == main.name else "")


def _results(measured: RoleMeasures) -> Iterable[Metric]:
    stem, labels = f"entente_{measured.role_name}", (measured.role_name,)
    every = f"{stem}_reward"  # each record of episodes has it for each role with any
    for measure in measured.trained:
        name, text = f"{stem}_{measure.name}", measure.text
        beside = every if measure.weight else ""  # where nothing was counted there is no share
        yield _gauge(name, measure.unit, f"{_sentence(text)}, last 100 episodes", labels, beside=beside)
        # Only line-up blocks are independent.
        for end, word in (("low", "Lower"), ("high", "Upper")):
            about = f"{word} end of the 95% interval, clustered by block, of the {measure.brief}"
            yield _gauge(f"{name}_{end}", measure.unit, about, labels, beside=beside)
    yield _gauge(every, "reward", "Mean episode return, last 100 episodes", labels)
    yield _gauge(f"{stem}_reward_std", "reward", "Deviation of returns, last 100 episodes", labels)
    yield _gauge(f"{stem}_phases", "phases", "Mean game length, last 100 episodes", labels)
    yield _counter(f"{stem}_episodes_total", "episodes", "Episodes the learner used", labels)
    main = measured.main
    yield _gauge(f"entente_batch_{main.name}", main.unit, f"{_sentence(main.text)} of this update's episodes", labels)
    for pair in measured.pairs:
        text = f"{_sentence(pair.text)}, last 100 episodes"
        yield _gauge(f"{stem}_{pair.name}", "1", text, (measured.role_name, PARTNER), whole=True, beside=every)


def _level(measured: RoleMeasures) -> Metric:
    text = f"A {measured.role_name}'s level in the curriculum, from 0"
    return _gauge("entente_curriculum_level", "level", text, (measured.role_name,), whole=True)


def _evaluations(measured: RoleMeasures) -> Iterable[Metric]:
    for measure in measured.leading:
        text = f"{_sentence(measure.text)} by {measured.role_name}"
        labels = ("against", measured.role_name)
        yield _gauge(f"entente_evaluation_{measure.row_name}", measure.unit, text, labels)
    name, main = evaluation_name(measured), measured.main
    yield _gauge(name, main.unit, f"{_sentence(main.brief)}, {measured.plural} weighted equally", ("against",))
    for end, word in (("low", "Lower"), ("high", "Upper")):
        yield _gauge(f"{name}_{end}", main.unit, f"{word} end of its 95% interval", ("against",))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


# The metrics that this process knows by name; of several with one name, which are of one kind, the first.
_known_names: dict[str, Metric] = {metric.name: metric for metric in METRICS}
_known_series = {(metric.name, frozenset(metric.labels)): metric for metric in METRICS}
CATALOGUE: Mapping[str, Metric] = MappingProxyType(_known_names)
_FIXED = frozenset(_known_names)


def declare(measured: RoleMeasures) -> None:
    """Add the metrics of a world's roles to the catalogue of this process; a second call does nothing.

    Of two worlds that call their roles alike, the later one's metrics replace the earlier one's of the same names: a
    process works on one run at a time.

    Raises ``MetricsError``, and adds none, if a name belongs to a metric of all worlds, or cannot be a metric's.
    """
    if not _LABEL.fullmatch(measured.role_name) or measured.role_name in _RESERVED:
        raise MetricsError(f"{one_line(repr(measured.role_name), 80)} cannot be a role's name in metrics")
    made: dict[tuple[str, frozenset[str]], Metric] = {}
    for metric in role_metrics(measured):
        series = (metric.name, frozenset(metric.labels))
        same_name = _known_names.get(metric.name)
        if not _LABEL.fullmatch(metric.name):
            raise MetricsError(f"{one_line(repr(metric.name), 80)} cannot be a metric's name")
        if metric.name in _FIXED or series in made:
            raise MetricsError(f"the metric {metric.name} has another meaning already; rename the measure or the role")
        if same_name is not None and same_name.kind != metric.kind:
            raise MetricsError(f"the metric {metric.name} is a {same_name.kind} already; rename the measure")
        made[series] = metric
    for series, metric in made.items():
        before = _known_series.get(series)
        if _known_names.get(metric.name) in (None, before):
            _known_names[metric.name] = metric
        _known_series[series] = metric


def known_metrics() -> list[Metric]:
    """All metrics that this process knows; two may share a name, with different labels."""
    return list(_known_series.values())


def key(name: str, **labels: str) -> str:
    """Return a measurement's key, labels in order. Raises ``MetricsError`` if the metric or a label is unknown."""
    metric = _known(name, labels)
    if not labels:
        return name
    return f"{name}{{{','.join(f'{label}={_encoded(labels[label])}' for label in metric.labels)}}}"


def parse_key(text: str) -> tuple[Metric, tuple[str, ...]]:
    """Return the metric that a key names and its label values, in the catalogue's order; raises as ``key`` does."""
    name, brace, rest = text.partition("{")
    if not brace:
        return _known(name, ()), ()
    pairs = [part.partition("=") for part in rest.removesuffix("}").split(",")]
    labels = {label: decoded(value) for label, _, value in pairs}
    metric = _known(name, labels)
    if key(name, **labels) != text:
        example = key(name, **dict.fromkeys(metric.labels, "..."))
        raise MetricsError(f"{text!r} is no metric key; {name} is written {example}")
    return metric, tuple(labels[label] for label in metric.labels)


def decoded(value: str) -> str:
    """Return a label's value from its text in a key."""
    return unquote(value)


def _encoded(value: str) -> str:
    """Return a label's value, text from anywhere, as it is in a key; Prometheus takes an empty value for no label."""
    return (one_line(value, _LONGEST_LABEL) or "-").translate(_MARKS)


def finite(values: Mapping[str, Value]) -> dict[str, Value]:
    """Return the measurements without those that are not finite."""
    return {text: value for text, value in values.items() if _is_finite(value)}


def _is_finite(value: Value) -> bool:
    return all(map(math.isfinite, value if isinstance(value, Sequence) else (value,)))


def check(values: Mapping[str, Value]) -> None:
    """Raise ``MetricsError`` for unknown metrics, wrong labels or types, and values that are not finite."""
    for text, value in values.items():
        metric, _ = parse_key(text)
        if isinstance(value, Sequence) != (metric.kind == "histogram"):
            wanted = "a list of observations" if metric.kind == "histogram" else "one number"
            raise MetricsError(f"{text} is a {metric.kind} and takes {wanted}")
        if not _is_finite(value):
            raise MetricsError(f"{text} is {value}; leave out what has no data")


def _known(name: str, labels: Collection[str]) -> Metric:
    metric = _known_series.get((name, frozenset(labels)))
    if metric is not None:
        return metric
    if name in CATALOGUE:
        raise MetricsError(f"{name} takes labels {list(CATALOGUE[name].labels)}, not {sorted(labels)}")
    near = difflib.get_close_matches(name, CATALOGUE, n=1)
    raise MetricsError(f"unknown metric {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
