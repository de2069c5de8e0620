"""The dashboard of games with press: what players said and did to one another."""

from __future__ import annotations

from grpo_core.types import RoleMeasures
from services.metrics.catalogue import role_metrics
from services.metrics.dashboards.panels import Dashboard, Query, chart, floor_of, gauge, latest, row, unit_of

_SIDE_BY_SIDE = (  # title, measures with their legends
    ("Honesty", (("honesty", "of the policy"), ("partners_honesty", "of its partners"))),
    ("Cross-supports", (("cross_supports", "given"), ("cross_supports_received", "received"))),
    (
        "Effective cross-supports",
        (("effective_cross_supports", "given"), ("effective_cross_supports_received", "received")),
    ),
    ("Attacks", (("attacks", "by the policy"), ("attacks_received", "on it"))),
)


def press_board(measured: RoleMeasures, without: RoleMeasures) -> Dashboard:
    """Make the board ``entente-press`` of the measures that a world has with press, and lacks ``without`` it."""
    known = {measure.name for measure in without.measures}
    of_press = {measure.name: measure for measure in measured.trained if measure.name not in known}
    metrics = {metric.name: metric for metric in role_metrics(measured)}
    stem = f"entente_{measured.role_name}_"
    means = [
        chart(
            title,
            *(Query(f"avg ({latest(metrics[stem + name])})", legend) for name, legend in lines),
            text=f"{'; '.join(of_press[name].text for name, _ in lines)}: mean over {measured.plural}.",
        )
        for title, lines in _SIDE_BY_SIDE
        if all(name in of_press for name, _ in lines)
    ]
    each = [
        gauge(metrics[stem + name], measure.title, unit=unit_of(measure), minimum=floor_of(measure))
        for name, measure in of_press.items()
    ]
    return Dashboard(
        "entente-press" if measured.role_name == "country" else f"entente-press-{measured.plural}",
        "Entente: press",
        "Letters, promises kept and broken, help and attacks, in the last 100 training episodes of each role.",
        (row(f"All {measured.plural} together", *means), row(f"By {measured.role_name}", *each)),
    )
