"""Who the learner plays against, how strong they are, and what remote players answer and cost."""

from __future__ import annotations

from services.metrics.dashboards.panels import (
    PERCENT,
    Board,
    Panel,
    Query,
    Row,
    counter,
    edges,
    gauge,
    latest,
    rate,
    risen,
)

_RATING = latest("entente_rating", player="learner")
_SIGMA = latest("entente_rating_deviation", player="learner")
_CALLS = rate("entente_remote_calls_total")

OPPONENTS = Board(
    "entente-opponents",
    "Entente: opponents",
    "Who the learner plays against, how strong they are, and what remote players answer and cost.",
    (
        Row(
            "Strength",
            (
                Panel(
                    "The learner's rating",
                    (
                        *edges(f"{_RATING} - 1.96 * {_SIGMA}", f"{_RATING} + 1.96 * {_SIGMA}"),
                        Query(_RATING, "rating"),
                    ),
                    text="400 points are odds of ten to one; bots are fixed anchors. It grows less certain with every "
                    "update, for the policy changes.",
                    width=12,
                    height=9,
                ),
                gauge("entente_rating", "Everybody's rating", width=12, height=9),
                gauge("entente_rating_deviation", "How uncertain the ratings are", width=8),
                gauge(
                    "entente_opponent_score",
                    "The learner's score against each",
                    text="Share of recent pairwise comparisons that the learner won; one half is equal strength.",
                    unit=PERCENT,
                    least=0.0,
                    most=1.0,
                    width=8,
                ),
                gauge("entente_curriculum_level", "Curriculum level", least=0.0, width=8),
            ),
        ),
        Row(
            "Population",
            (
                gauge("entente_population_size", "Members", least=0.0, width=8, stacked=True),
                counter(
                    "entente_opponent_games_total",
                    "Who is met: games a minute",
                    60.0,
                    text="Training games that a member sat in, as matchmaking draws them.",
                    width=8,
                    stacked=True,
                ),
                Panel(
                    "Snapshots that joined by their rating",
                    (Query(latest("entente_promotions_total"), "promotions"),),
                    text="In all. None for long: the learner is not surely stronger than its newest snapshot.",
                    least=0.0,
                    width=8,
                ),
            ),
        ),
        Row(
            "Remote players",
            (
                Panel(
                    "Calls",
                    (
                        Query(_CALLS, "answered"),
                        Query(rate("entente_remote_retries_total"), "attempts beyond the first"),
                        Query(rate("entente_remote_failures_total"), "without an answer"),
                    ),
                    text="Calls to the endpoints of remote players, per second.",
                    least=0.0,
                    width=8,
                ),
                Panel(
                    "Decisions spoilt",
                    (
                        Query(rate("entente_remote_defects_total"), "orders not legal, or missing"),
                        Query(rate("entente_remote_held_total"), "decisions left to holding"),
                    ),
                    text="Per second. A remote player that holds is no opponent: see its endpoint's log and limits.",
                    least=0.0,
                    width=8,
                ),
                Panel(
                    "Tokens and cost",
                    (
                        Query(rate("entente_remote_prompt_tokens_total"), "prompt tokens a second"),
                        Query(rate("entente_remote_completion_tokens_total"), "completion tokens a second"),
                        Query(risen("entente_remote_cost_total", "1h"), "cost in the last hour"),
                    ),
                    text="As the endpoints count them, at the configured prices.",
                    least=0.0,
                    width=8,
                ),
            ),
        ),
    ),
)
