"""The first dashboard: whether the run is alive, what is wrong, and the results of the seven countries."""

from __future__ import annotations

from typing import Any

from services.metrics.dashboards.panels import (
    PERCENT,
    Dashboard,
    Panel,
    Query,
    band,
    chart,
    edges,
    games_per_hour,
    gauge,
    increase,
    latest,
    pace,
    row,
    series,
)

COUNTRY = "$country"
_FIRING = 'ALERTS{alertstate="firing", run=~"$run|"}'  # alerts about nodes have no run
_WAITED = f"time() - {latest('entente_progress_timestamp_seconds')}"


def _stat(title: str, *queries: Query, text: str, **options: Any) -> Panel:
    return Panel(title, queries, text=text, kind="stat", width=3, height=4, **options)


def _matrix(title: str, name: str, text: str, **options: Any) -> Panel:
    by = ("country", "against")
    return Panel(title, (Query(latest(name)),), text=text, kind="matrix", by=by, width=12, height=8, **options)


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

_ALL = row(
    "All countries, last 100 episodes of each",
    gauge("entente_country_win_rate", "Solos", unit=PERCENT, height=9),
    gauge("entente_country_top_rate", "Games led, ties included", unit=PERCENT, height=9),
    gauge("entente_country_centers", "Centres", height=9),
    gauge("entente_country_survival_rate", "Survival", unit=PERCENT, maximum=1.0, height=9),
)

_AGAINST = "$against"
_EVALUATIONS = row(
    "Against bots that never change (evaluations)",
    chart(
        "Centres against six $against",
        *edges(
            latest("entente_evaluation_centers_low", against=_AGAINST),
            latest("entente_evaluation_centers_high", against=_AGAINST),
        ),
        Query(latest("entente_evaluation_centers", against=_AGAINST), "mean"),
        text="Mean centres, countries weighted equally, with the 95% interval. Evaluated before the "
        "first update, after the last, and every evaluation.every updates.",
        width=8,
        repeat="against",
    ),
    _matrix(
        "Centres in the latest evaluation",
        "entente_evaluation_mean_centers",
        "Mean final centres of each country against six of each bot.",
    ),
    _matrix(
        "Solos in the latest evaluation",
        "entente_evaluation_win_rate",
        "Share of games that each country won alone.",
        unit=PERCENT,
    ),
)

_REWARD = latest("entente_country_reward", country=COUNTRY)
_DEVIATION = latest("entente_country_reward_std", country=COUNTRY)
_EACH = row(
    "$country",
    band("entente_country_win_rate", "Solos", unit=PERCENT, country=COUNTRY),
    band("entente_country_top_rate", "Games led, ties included", unit=PERCENT, country=COUNTRY),
    band(
        "entente_country_centers",
        "Centres",
        Query(latest("entente_batch_centers", country=COUNTRY), "this update alone", faint=True),
        country=COUNTRY,
    ),
    band("entente_country_survival_rate", "Survival", unit=PERCENT, maximum=1.0, country=COUNTRY),
    chart(
        "Return",
        *edges(f"{_REWARD} - {_DEVIATION}", f"{_REWARD} + {_DEVIATION}", "of one deviation"),
        Query(_REWARD, "mean"),
        text="Mean return of the last 100 episodes, and one deviation of single episodes to either side.",
        minimum=None,
    ),
    chart(
        "Games",
        Query(latest("entente_country_phases", country=COUNTRY), "phases of a game"),
        Query(f"60 * {pace('entente_country_episodes_total', country=COUNTRY)}", "episodes a minute"),
        text="Mean length of the last 100 episodes, and how many the learner used.",
    ),
    width=4,
    repeat="country",
)

COUNTRIES = Dashboard(
    "entente-countries",
    "Entente: countries",
    "Is the run alive, is anything wrong, and what are the countries' results?",
    (_NOW, _ALL, _EVALUATIONS, _EACH),
)
