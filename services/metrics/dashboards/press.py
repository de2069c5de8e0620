"""The dashboard of games with press: what players said and did to one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from grpo_core.types import Measure, RoleMeasures
from services.metrics.catalogue import PARTNER, Metric, role_metrics
from services.metrics.dashboards.panels import (
    PERCENT,
    Dashboard,
    Panel,
    Query,
    Row,
    chart,
    floor_of,
    gauge,
    is_share,
    latest,
    row,
    share_chart,
    unit_of,
)

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

    def together(measure: Measure) -> str:
        """The mean over roles, or over all that they counted."""
        value = latest(metrics[stem + measure.name])
        if not measure.weight:
            return f"avg ({value})"
        weight = latest(metrics[stem + measure.weight])
        return f"sum ({value} * on({measured.role_name}) {weight}) / (sum ({weight}) > 0)"

    means = [
        (share_chart if all(is_share(of_press[name]) for name, _ in lines) else chart)(
            title,
            *(Query(together(of_press[name]), legend) for name, legend in lines),
            text=f"{'; '.join(of_press[name].text for name, _ in lines)}: of all {measured.plural} together.",
        )
        for title, lines in _SIDE_BY_SIDE
        if all(name in of_press for name, _ in lines)
    ]
    each = [
        gauge(
            metrics[stem + name],
            measure.title,
            unit=unit_of(measure),
            minimum=floor_of(measure),
            maximum=1.0 if is_share(measure) else None,
        )
        for name, measure in of_press.items()
    ]
    return Dashboard(
        "entente-press" if measured.role_name == "country" else f"entente-press-{measured.plural}",
        "Entente: press",
        "Letters, promises, help, attacks and alliances, in the last 100 training episodes of each role.",
        (
            row(f"All {measured.plural} together", *means),
            row(f"By {measured.role_name}", *each),
            *_pairs(measured, metrics),
        ),
        {measured.role_name: f"{stem}{measured.main.name}"},
    )


def _pairs(measured: RoleMeasures, metrics: Mapping[str, Metric]) -> Iterator[Row]:
    """What each pair of roles did lately, and over time for each role of the policy."""
    name = measured.role_name
    found = [(pair, metrics[f"entente_{name}_{pair.name}"]) for pair in measured.pairs]
    if not found:
        return
    now = (
        Panel(
            pair.title,
            (Query(latest(metric)),),
            text=f"{metric.help}; rows are the {name} of the policy.",
            kind="matrix",
            by=(name, PARTNER),
            unit=PERCENT,
            height=9,
        )
        for pair, metric in found
    )
    yield row("By pair, now", *now, width=8)
    one, partner = {name: f"${name}"}, f"{{{{{PARTNER}}}}}"
    over_time = (
        share_chart(pair.title, Query(latest(metric, **one), partner), text=f"{metric.help}.") for pair, metric in found
    )
    yield row(f"${name}, by partner", *over_time, width=8, repeat=name)
