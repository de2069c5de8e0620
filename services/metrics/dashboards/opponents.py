"""The dashboard of the opponents: ratings, population, and the calls and cost of remote players."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_core.types import RoleMeasures
from services.metrics.catalogue import role_metrics
from services.metrics.dashboards.panels import (
    PERCENT,
    Dashboard,
    Query,
    chart,
    counter,
    edges,
    gauge,
    increase,
    latest,
    rate,
    row,
    value,
)

_RATING = latest("entente_rating", player="learner")
_SIGMA = latest("entente_rating_deviation", player="learner")
_CALLS = rate("entente_remote_calls_total")


def opponents(worlds: Sequence[RoleMeasures]) -> Dashboard:
    """Make the board; ``worlds`` are those whose runs it shows."""
    found = [metric for measured in worlds for metric in role_metrics(measured)]
    by_label = {metric.labels[0]: metric for metric in found if metric.name == "entente_curriculum_level"}
    levels = [
        gauge(metric, "Curriculum level" + (f" by {label}" if number else ""))
        for number, (label, metric) in enumerate(by_label.items())
    ]
    return Dashboard(
        "entente-opponents",
        "Entente: opponents",
        "The learner's opponents, their strength, and the calls and cost of remote players.",
        (
            row(
                "Strength",
                chart(
                    "The learner's rating",
                    *edges(f"{_RATING} - 1.96 * {_SIGMA}", f"{_RATING} + 1.96 * {_SIGMA}"),
                    Query(_RATING, "rating"),
                    text="400 points are odds of ten to one; bots are fixed anchors. Updates change the policy, so the "
                    "rating grows less certain.",
                    width=12,
                    height=9,
                    minimum=None,
                ),
                gauge("entente_rating", "All ratings", width=12, height=9, minimum=None),
                gauge("entente_rating_deviation", "Deviation of the ratings", minimum=None),
                gauge(
                    "entente_opponent_score",
                    "The learner's score against each opponent",
                    text="Share of recent pairwise comparisons that the learner won; one half is equal strength.",
                    unit=PERCENT,
                    maximum=1.0,
                ),
                *levels,
                width=8,
            ),
            row(
                "Population",
                gauge("entente_population_size", "Members", stacked=True),
                counter(
                    "entente_opponent_games_total",
                    "Games a minute, by opponent",
                    60.0,
                    text="Training games with each member, as matchmaking draws them.",
                    stacked=True,
                ),
                chart(
                    "Snapshots that joined by their rating",
                    value("entente_promotions_total", "promotions"),
                    text="Their total. It rises when the learner is certainly stronger than its newest snapshot.",
                ),
                width=8,
            ),
            row(
                "Remote players",
                chart(
                    "Calls",
                    Query(_CALLS, "answered"),
                    Query(rate("entente_remote_retries_total"), "attempts beyond the first"),
                    Query(rate("entente_remote_failures_total"), "without an answer"),
                    Query(rate("entente_remote_usage_unknown_total"), "answered without numbers of tokens"),
                    text="Calls to the endpoints of remote players, per second.",
                ),
                chart(
                    "Defective and failed decisions",
                    Query(rate("entente_remote_defects_total"), "orders not legal, or missing"),
                    Query(rate("entente_remote_held_total"), "decisions that hold all units"),
                    text="Per second. A remote player that only holds teaches little: see its endpoint's log and "
                    "limits.",
                ),
                chart(
                    "Tokens and cost",
                    Query(rate("entente_remote_prompt_tokens_total"), "prompt tokens a second"),
                    Query(rate("entente_remote_completion_tokens_total"), "completion tokens a second"),
                    Query(increase("entente_remote_cost_total", "1h"), "cost in the last hour"),
                    text="As the endpoints count them, at the configured prices.",
                ),
                width=8,
            ),
        ),
    )
