"""The first dashboard: whether the run is alive, what is wrong, and the results of a world's roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_core.types import Measure, RoleMeasures
from services.metrics.catalogue import Metric, evaluation_name, role_metrics
from services.metrics.dashboards.panels import (
    PERCENT,
    Dashboard,
    Panel,
    Query,
    Row,
    band,
    chart,
    edges,
    floor_of,
    games_per_hour,
    gauge,
    increase,
    latest,
    pace,
    row,
    series,
    unit_of,
)


@dataclass(frozen=True, slots=True)
class ResultPanel:
    """A panel of one measure of all roles."""

    measure: str  # its name
    title: str
    maximum: float | None = None  # of the axis
    text: str = ""  # of its table of evaluations; "": as the measure says


# The board of Diplomacy leads with what its players play for, and speaks of it as they do.
COUNTRY_PANELS = (
    ResultPanel("win_rate", "Solos", text="Share of games that each country won alone."),
    ResultPanel("top_rate", "Games led, ties included"),
    ResultPanel("centers", "Centres"),
    ResultPanel("survival_rate", "Survival", maximum=1.0),
)

_FIRING = 'ALERTS{alertstate="firing", run=~"$run|"}'  # alerts about nodes have no run
_WAITED = f"time() - {latest('entente_progress_timestamp_seconds')}"


def _stat(title: str, *queries: Query, text: str, **options: Any) -> Panel:
    return Panel(title, queries, text=text, kind="stat", width=3, height=4, **options)


_NOW = row(
    "Now",
    _stat(
        "The run",
        Query(f"count({series('entente_policy_version')}) or vector(0)"),
        text="Whether its exporter answers. If it is gone, read the alert's text, then the end of the run's log.",
        value_names=((0, "gone"), (1, "answers")),
        colors=((0, "red"), (1, "green")),
    ),
    _stat(
        "Alerts",
        Query(f"count({_FIRING}) or vector(0)"),
        text="Alerts that fire for this run and for the nodes; they are listed below.",
        colors=((0, "green"), (1, "red")),
    ),
    _stat(
        "Since the last update",
        Query(_WAITED, "waited", "s"),
        Query(f"({_WAITED}) / {latest('entente_update_timeout_seconds')}", "of the limit", PERCENT),
        text="Since an update or evaluation ended, also as a share of rollout.update_timeout_s, after which "
        "the run gives up.",
        colors=((0, "green"), (0.25, "yellow"), (0.5, "red")),
    ),
    _stat(
        "Updates",
        Query(latest("entente_updates_total"), "made"),
        Query(f"{latest('entente_updates_total')} / {latest('entente_updates_planned')}", "of all", PERCENT),
        text="Policy updates made, and their share of learner.updates.",
    ),
    _stat(
        "Time left",
        Query(
            f"({latest('entente_updates_planned')} - {latest('entente_updates_total')})"
            f" * max(avg_over_time({series('entente_update_seconds')}[$window]))"
        ),
        text="Updates to go, at the pace of the latest; evaluations come on top.",
        unit="s",
    ),
    _stat(
        "Games per hour",
        Query(games_per_hour()),
        text="Training games that ended, per hour without evaluations. Counted as they end, so it shows whether games "
        "are played while an update is waited for.",
    ),
    _stat(
        "Learner busy",
        Query(pace("entente_learner_busy_seconds_total")),
        text="Share of the time, evaluations left out, that the learner learns; otherwise it waits for episodes.",
        unit=PERCENT,
        colors=((0, "orange"), (0.2, "green")),
    ),
    _stat(
        "Rollout workers",
        Query(latest("entente_workers_playing"), "play"),
        Query(latest("entente_workers_wanted"), "wanted"),
        text="Workers that may be given games, and how many the load asks for. Fewer than wanted for long: the "
        "cluster lacks nodes, or they fail again and again.",
    ),
    Panel(
        "Firing",
        (Query(_FIRING),),
        text="Firing alerts with severity and place. Each alert's description says what to do.",
        kind="table",
        width=12,
        height=6,
    ),
    Panel(
        "Trouble in the last hour",
        (
            Query(increase("entente_run_restarts_total", "1h"), "the run started again"),
            Query(increase("entente_worker_restarts_total", "1h"), "workers replaced"),
            Query(f"sum ({increase('entente_swap_failures_total', '1h')})", "weight swaps failed"),
            Query(increase("entente_nonfinite_updates_total", "1h"), "updates not finite"),
            Query(increase("entente_stale_episodes_total", "1h"), "episodes too old"),
            Query(increase("entente_poison_episodes_total", "1h"), "episodes undecodable"),
        ),
        text="Each should be 0. The run was lost and went on by itself; rollout workers replaced; engines that did "
        "not take new weights; updates with a loss, gradient or figure that is no finite number; episodes set "
        "aside, too old or damaged.",
        kind="stat",
        width=12,
        height=6,
        colors=((0, "green"), (0.5, "orange")),
    ),
)

_AGAINST = "$against"


def board(measured: RoleMeasures, panels: Sequence[ResultPanel] = ()) -> Dashboard:
    """Make the board ``entente-<roles>``, with ``panels`` of the results in this order; without any, one a measure.

    Panels of measures that training does not follow are left out.
    """
    known = {measure.name: measure for measure in measured.trained}
    metrics = {metric.name: metric for metric in role_metrics(measured)}
    shown = [panel for panel in panels if panel.measure in known]
    shown = shown or [ResultPanel(measure.name, measure.title) for measure in measured.trained]
    chosen = [(panel, known[panel.measure]) for panel in shown]
    name = measured.role_name
    first = metrics[f"entente_{name}_{measured.main.name}"]
    return Dashboard(
        f"entente-{measured.plural.replace('_', '-')}",
        f"Entente: {measured.plural}",
        f"Is the run alive, is anything wrong, and what are the {measured.plural}' results?",
        (
            _NOW,
            _all(measured, chosen, metrics),
            _evaluations(measured, {panel.measure: panel.text for panel in shown}, metrics),
            _each(measured, chosen, metrics),
        ),
        {name: first.name, "against": evaluation_name(measured)},
    )


def _all(measured: RoleMeasures, chosen: Sequence[tuple[ResultPanel, Measure]], metrics: Mapping[str, Metric]) -> Row:
    gauges = (
        gauge(
            metrics[f"entente_{measured.role_name}_{measure.name}"],
            panel.title,
            unit=unit_of(measure),
            height=9,
            maximum=panel.maximum,
            minimum=floor_of(measure),
        )
        for panel, measure in chosen
    )
    return row(f"All {measured.plural}, last 100 episodes of each", *gauges)


def _evaluations(measured: RoleMeasures, texts: Mapping[str, str], metrics: Mapping[str, Metric]) -> Row:
    main, overall = measured.main, evaluation_name(measured)
    met = measured.opposition.format(_AGAINST)
    bots = f" {measured.versus} {measured.others('of each bot').removeprefix('of ')}" if measured.opponents else ""
    return row(
        "Against bots that never change (evaluations)" if measured.opponents else "Evaluations",
        chart(
            f"{main.title} {met}",
            *edges(*(latest(metrics[f"{overall}_{end}"], against=_AGAINST) for end in ("low", "high"))),
            Query(latest(metrics[overall], against=_AGAINST), "mean"),
            text=f"{_sentence(main.brief)}, {measured.plural} weighted equally, with the 95% interval. Evaluated "
            "before the first update, after the last, and every evaluation.every updates.",
            width=8,
            repeat="against",
            unit=unit_of(main),
            minimum=floor_of(main),
        ),
        *(
            Panel(
                f"{measure.title} in the latest evaluation",
                (Query(latest(metrics[f"entente_evaluation_{measure.row_name}"])),),
                text=texts.get(measure.name) or f"{_sentence(measure.text)} of each {measured.role_name}{bots}.",
                kind="matrix",
                by=(measured.role_name, "against"),
                width=12,
                height=8,
                unit=unit_of(measure),
            )
            for measure in measured.leading
        ),
    )


def _each(measured: RoleMeasures, chosen: Sequence[tuple[ResultPanel, Measure]], metrics: Mapping[str, Metric]) -> Row:
    name = measured.role_name
    stem, one = f"entente_{name}", {name: f"${name}"}
    alone = Query(latest(metrics[f"entente_batch_{measured.main.name}"], **one), "this update alone", faint=True)
    reward, deviation = (latest(metrics[f"{stem}_{figure}"], **one) for figure in ("reward", "reward_std"))
    bands = (
        band(
            metrics[f"{stem}_{measure.name}"],
            (metrics[f"{stem}_{measure.name}_low"], metrics[f"{stem}_{measure.name}_high"]),
            measure,
            panel.title,
            *((alone,) if measure == measured.main else ()),
            maximum=panel.maximum,
            **one,
        )
        for panel, measure in chosen
    )
    return row(
        f"${name}",
        *bands,
        chart(
            "Return",
            *edges(f"{reward} - {deviation}", f"{reward} + {deviation}", "of one deviation"),
            Query(reward, "mean"),
            text="Mean return of the last 100 episodes, and one deviation of single episodes to either side.",
            minimum=None,
        ),
        chart(
            "Games",
            Query(latest(metrics[f"{stem}_phases"], **one), "phases of a game"),
            Query(f"60 * {pace(metrics[f'{stem}_episodes_total'], **one)}", "episodes a minute"),
            text="Mean length of the last 100 episodes, and how many the learner used.",
        ),
        width=4,
        repeat=name,
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
