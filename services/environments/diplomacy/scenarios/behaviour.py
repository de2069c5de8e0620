"""The other powers of a scenario: a bot with scripted orders and promises to the country."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from services.environments.diplomacy.alliances import acts
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.orders import check
from services.environments.diplomacy.scenarios.scenario import Other, Scenario, phase_number
from services.environments.playing import Bot


def other_players(scenario: Scenario, bot: Callable[[str], Bot] = make_bot) -> dict[str, Bot]:
    """New players of the six other powers, for one game; ``bot`` makes bots by name."""
    bots = {
        name: bot(name) for name in sorted({scenario.default, *(other.plays for other in scenario.others.values())})
    }
    return {
        power: Promising(scenario.others[power], bots[scenario.others[power].plays], scenario.country)
        if power in scenario.others
        else bots[scenario.default]
        for power in POWERS
        if power != scenario.country
    }


def loyal(bot: Bot, scenario: Scenario) -> Bot:
    """A bot as the country of a scenario; in an alliance it spares its partner and supports it with idle units."""
    partner = scenario.score.partner
    return (
        bot if partner is None else Promising(Other(spares=(partner,), supports="always", forgives=True), bot, partner)
    )


class Promising(Bot):
    """A bot that also gives scripted orders and keeps promises. It follows one game, from its first phase."""

    def __init__(self, other: Other, bot: Bot, country: str) -> None:
        self._other = other
        self._bot = bot
        self._country = country
        self._before: Position | None = None  # the latest movement phase
        self._attacked = False
        self._was_helped = False

    def actions(self, position: Position, power: str, seed: int) -> tuple[str, ...]:
        """The scripted orders, and the bot's as far as the promises allow them."""
        self._look_back(position, power)
        chosen: Sequence[str] = self._bot.actions(position, power, seed)
        if self._holds(position):
            closed = closed_provinces(self._other, position)
            if position.kind == "M":
                chosen = self._kept(position, power, chosen, closed)
            elif position.kind == "R":
                chosen = [_retreat(position, order, closed) for order in chosen]
        return check((*self._other.orders.get(position.phase, ()), *chosen), position, power).actions

    def _holds(self, position: Position) -> bool:
        until = self._other.until
        over = until is not None and phase_number(position.phase) >= phase_number(until)
        return not over and (self._other.forgives or not self._attacked)

    def _look_back(self, position: Position, power: str) -> None:
        """Note who attacked and helped in the movement phase before this one."""
        if position.kind != "M":
            return
        past = next((each for each in position.past if each.phase.endswith("M")), None)
        before, self._before, self._was_helped = self._before, position, False
        if before is None or past is None or past.phase != before.phase:
            return
        net = acts(before, past.orders)
        self._attacked |= any(net.get((other, power), 0) < 0 for other in self._other.spares)
        self._was_helped = net.get((self._country, power), 0) > 0

    def _kept(self, position: Position, power: str, chosen: Iterable[str], closed: frozenset[str]) -> list[str]:
        """Orders in which no unit goes, or helps, to where it must not; units that then hold may help the country."""
        orders = {_unit(order): order for order in chosen}
        orders = {unit: f"{unit} H" if _goal(order) in closed else order for unit, order in orders.items()}
        for unit, order in orders.items():  # support of an own unit that now does something else
            words = order.split(" ")
            helped = orders.get(" ".join(words[3:5])) if words[2] == "S" else None
            if helped is not None and ("-" in words) != (helped.split(" ")[2] == "-"):
                orders[unit] = f"{unit} H"
        supports = self._other.supports
        if supports == "always" or (supports == "returned" and self._was_helped):
            return [
                self._help(position, power, unit) if order.endswith(" H") else order for unit, order in orders.items()
            ]
        return list(orders.values())

    def _help(self, position: Position, power: str, unit: str) -> str:
        """Support the country into ``into``, else where it is threatened; else hold. The first unit by name is helped.

        Provinces in ``into`` are tried in their order.
        """
        legal = position.legal[unit[2:]]
        own = {each[2:5] for each in position.units[power]}
        country = position.units[self._country]
        taken = {each[2:5] for each in country} | own
        wanted = [f"S {each} - {goal}" for goal in self._other.into if goal not in taken for each in country]
        wanted += [f"S {each}" for each in country if is_threatened(position, each[2:5], {power, self._country})]
        return next((order for what in wanted if (order := f"{unit} {what}") in legal), f"{unit} H")


def closed_provinces(other: Other, position: Position) -> frozenset[str]:
    """Where a power that keeps its promises does not go.

    It stays out of some provinces, leaves others to the country, and spares the units and centres of some powers.
    """
    units = [unit[2:5] for power in other.spares for unit in position.units[power]]
    centers = [center for power in other.spares for center in position.centers[power]]
    return frozenset((*other.stays_out_of, *other.into, *units, *centers))


def is_threatened(position: Position, province: str, friends: Iterable[str]) -> bool:
    """Whether a unit of another power than ``friends`` can move to a province, convoys included."""
    known = set(friends)
    return any(
        _goal(order) == province and order.split(" ")[2] == "-"
        for power, units in position.units.items()
        if power not in known
        for unit in units
        for order in position.legal.get(unit[2:], ())
    )


def described(other: Other, country: str) -> str:
    """How a power plays, in one line of words for tables and pages."""
    parts = [other.plays]
    if other.orders:
        parts.append(f"scripted orders in {', '.join(other.orders)}")
    if other.stays_out_of:
        parts.append(f"stays out of {', '.join(other.stays_out_of)}")
    if other.spares:
        parts.append(f"does not attack {', '.join(other.spares)}{'' if other.forgives else ' unless attacked'}")
    if other.supports != "never":
        into = f" into {', '.join(other.into)}" if other.into else ""
        asked = " after support from it" if other.supports == "returned" else ""
        parts.append(f"supports {country}{into}{asked}")
    if other.until is not None:
        parts.append(f"keeps its word until {other.until}")
    return "; ".join(parts)


def _retreat(position: Position, order: str, closed: frozenset[str]) -> str:
    if _goal(order) not in closed:
        return order
    unit = _unit(order)
    ways: Mapping[str, tuple[str, ...]] = position.legal
    return next((each for each in ways[unit[2:]] if " R " in each and _goal(each) not in closed), f"{unit} D")


def _unit(order: str) -> str:
    return " ".join(order.split(" ", 2)[:2])


def _goal(order: str) -> str:
    """The province to which an order moves or retreats a unit, or helps one to move; empty for any other."""
    words = order.removesuffix(" VIA").split(" ")
    return words[-1][:3] if len(words) > 2 and words[-2] in ("-", "R") else ""
