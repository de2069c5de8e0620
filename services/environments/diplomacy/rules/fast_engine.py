"""The ``diplomacy`` engine without unused and repeated work: the same rules, results and saved games.

Apart from the rules, the plain engine spends most time on parsing and validating orders again, parsing phase names at
every comparison, an unused record of every phase, a search through all units for the one at a place or at a home, and
convoy routes of fleets that have not moved. The tests compare whole games with the plain engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from diplomacy import Game
from diplomacy.utils.common import str_cmp_class
from diplomacy.utils.constants import OrderSettings
from diplomacy.utils.sorted_dict import SortedDict

from services.environments.diplomacy.position import Position
from services.environments.diplomacy.rules.legal import standard_map
from services.environments.diplomacy.rules.orders import WAIVE

RoutesByStart = dict[str, dict[str, list[frozenset[str]]]]

# The fleets of a phase are looked up several times, those of openings in every game, later ones rarely again.
_ROUTES_KEPT = 256


@lru_cache(maxsize=1 << 14)
def _compared(first: str, second: str) -> int:
    order: int = standard_map().compare_phases(first, second)
    return order


_PhaseName = str_cmp_class(_compared)


@lru_cache(maxsize=_ROUTES_KEPT)
def _routes(fleets: frozenset[str]) -> tuple[list[Any], RoutesByStart]:
    """Return possible convoys of fleets at these places: (start, fleets, ends), and start -> end -> sets of fleets."""
    convoys: list[Any] = []
    by_start: RoutesByStart = {}
    for size in range(1, len(fleets) + 1):
        for convoy in standard_map().convoy_paths[size]:
            start, path, ends = convoy
            if path <= fleets:
                convoys.append(convoy)
                by_end = by_start.setdefault(start, {})
                for end in ends:
                    by_end.setdefault(end, []).append(path)
    return convoys, by_start


@cache
def _engine_coast(support: str) -> str:
    """Give a fleet's support of a fleet's move the only coast in reach, or no coast where both are (DATC 6.B.4)."""
    mark, *move = support.split()
    return " ".join((mark, *standard_map().default_coast([*move[:-1], move[-1][:3]])))


class FastGame(Game):  # type: ignore[misc]  # the engine has no types
    """The engine's game on the standard map; its ``process`` returns nothing."""

    convoy_paths_possible: list[Any] | None
    convoy_paths_dest: RoutesByStart | None
    _standing: Mapping[str, str] | None = None  # place -> unit while moves are resolved

    def __init__(self, **settings: Any) -> None:
        """Begin a game as ``Game(**settings)`` does."""
        super().__init__(**settings)
        self._phase_wrapper_type = _PhaseName
        self.order_history = SortedDict(_PhaseName, dict)
        self.message_history = SortedDict(_PhaseName, SortedDict)
        self.state_history = SortedDict(_PhaseName, dict)
        self.result_history = SortedDict(_PhaseName, dict)

    def process(self) -> None:
        """Adjudicate the phase, add it to the histories, and advance to the next phase with decisions."""
        phase = _PhaseName(self.current_short_phase)
        orders, messages, state = self.get_orders(), self.messages.copy(), self.get_state()
        self._process()  # writes the results itself
        self.order_history.put(phase, orders)
        self.message_history.put(phase, messages)
        self.state_history.put(phase, state)
        self.messages.clear()
        for power in self.powers.values():
            power.clear_orders()

    def process_unrecorded(self) -> None:
        """Adjudicate and advance as ``process``, without the histories."""
        self._process()
        self.messages.clear()
        for power in self.powers.values():
            power.clear_orders()

    def write_orders(self, name: str, orders: tuple[str, ...], position: Position) -> None:
        """Replace the orders of a power by ``orders``, legal in ``position``, in the form of ``Game.set_orders``."""
        power = self.powers[name]
        power.clear_orders()
        if position.kind == "M":
            for order in orders:
                mark = order.index(" ", 2)
                rest = order[mark + 1 :]
                if rest[:4] == "S F " and rest[-3] == "/" and "-" in rest and order[0] == "F":
                    rest = _engine_coast(rest)
                power.orders[order[:mark]] = rest
        else:
            power.adjust = list(orders)
            if orders and position.kind == "A":
                # The engine counts waived builds one by one, and adds those that a dummy power leaves open.
                power.adjust += [WAIVE] * (position.adjustments[name] - len(orders))
        sent = any(order != WAIVE for order in orders)
        power.order_is_set = OrderSettings.ORDER_SET if sent else OrderSettings.ORDER_SET_EMPTY

    def _build_list_possible_convoys(self) -> None:
        if self.convoy_paths_possible is None:
            sea = ("WATER", "PORT")
            fleets = (unit[2:] for power in self.powers.values() for unit in power.units if unit[0] == "F")
            there = frozenset(place for place in fleets if self.map.area_type(place) in sea)
            self.convoy_paths_possible, self.convoy_paths_dest = _routes(there)

    def _build_sites(self, power: Any) -> list[str]:
        # Asked for every power in every state: the plain engine lists all units again for each home.
        homes = power.centers if "BUILD_ANY" in self.rules else power.homes
        taken = {unit[2:5] for each in self.powers.values() for unit in each.units}
        return [home for home in homes if home in power.centers and home not in taken]

    def _resolve_moves(self) -> None:
        units = [unit for power in self.powers.values() for unit in power.units]
        self._standing = {unit[2:5]: unit for unit in units} | {unit[2:]: unit for unit in units}
        super()._resolve_moves()
        self._standing = None

    def _occupant(self, site: str, any_coast: int = 0) -> str | None:
        if self._standing is None:
            occupant: str | None = super()._occupant(site, any_coast)
            return occupant
        return self._standing.get(site[:3] if any_coast else site)
