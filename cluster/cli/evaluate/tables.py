"""Evaluations as tables of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.runs.evaluation_rows import rate_text
from services.environments.environment import World

NO_INTERVAL = ""


def letters_text(facts: Mapping[str, Any]) -> str:
    """What a title adds to "games" where letters come before orders."""
    return " with letters" if facts.get("press_rounds") else ""


def evaluation_text(row: Mapping[str, Any], world: World) -> str:
    """A line for each country, one for all, and one for the orders."""
    looked = f", look {row['look']} of {row['looks']}" if "look" in row else ""
    whom = world.opposition(row["against"])
    return "\n".join(
        [
            f"{row['checkpoint']} {whom}, {row['games']} games{letters_text(row)} to {row['until_year']}{looked}",
            f"  {'':<9}{'centres':<18} squares {'survives':<14}{'leads':<14}solos",
            *(f"  {power:<8} {_cells(values)}" for power, values in row["by_country"].items()),
            f"  {'all':<8} {_cells(row)}",
            f"  {_leads(row)}",
            f"  {_orders(row)}",
            "  leads: no power had more centres at the end; ties count. [95 % intervals]",
        ]
    )


def difference_text(row: Mapping[str, Any], world: World) -> str:
    """What a player has more than another in the same games, and which differences are not significant."""
    shown = ("mean_centers", "sum_of_squares", "lead_rate_ties_split", "solo_rate", "survival_rate")
    titles = {measure.row_name: measure for measure in world.measures}
    games = f"in the same {row['pairs']} games {world.opposition(row['against'])}"
    lines = [f"{row['checkpoint']} compared with {row['compared_with']}, {games}"]
    for name in shown:
        measure, interval = titles[name], row[f"{name}_ci95"]
        if row[name] is None:
            continue
        value = signed(row[name], measure.kind)
        bounds = "" if interval is None else f"[{', '.join(signed(end, measure.kind) for end in interval)}]"
        clear = "" if is_clear(interval) else "  not significant"
        lines.append(f"  {measure.heading:<18}{value:>8} {bounds:<20}{clear}".rstrip())
    return "\n".join(lines)


def signed(value: float, kind: str) -> str:
    """A difference as text: of shares in points of percent."""
    return f"{100 * value:+.1f} %" if kind == "share" else f"{value:+.3f}"


def is_clear(interval: Any) -> bool:
    """Whether an interval of a difference excludes 0."""
    return interval is not None and not interval[0] <= 0 <= interval[1]


def _cells(values: Mapping[str, Any]) -> str:
    interval = values["mean_centers_ci95"]
    bounds = NO_INTERVAL if interval is None else f"[{interval[0]:.1f}, {interval[1]:.1f}]"
    rates = (f"{rate_text(values, name):<14}" for name in ("survival_rate", "lead_rate", "solo_rate"))
    return f"{values['mean_centers']:5.2f} {bounds:<13}{values['sum_of_squares']:.3f}  {''.join(rates)}".rstrip()


def _leads(row: Mapping[str, Any]) -> str:
    return (
        f"leads, ties split {row['lead_rate_ties_split']:.0%}; tied {row['tied_lead_rate']:.0%}; draws "
        f"{row['draw_rate']:.0%}; defeated {row['defeat_rate']:.0%}; mean rank {row['mean_rank']:.2f} of 7"
    )


def _orders(row: Mapping[str, Any]) -> str:
    return (
        f"orders: {row['legal_order_share']:.0%} legal; {row['hold_share']:.0%} hold, "
        f"{row['convoy_share']:.0%} convoy, {row['support_share']:.0%} support "
        f"({row['effective_support_share']:.0%} effective)"
    )
