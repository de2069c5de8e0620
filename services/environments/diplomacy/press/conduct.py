"""How powers treat one another in a game: letters, supports, attacks and promises, counted by pair of powers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.press.deeds import helps, is_against
from services.environments.diplomacy.press.ledger import tested_promises
from services.environments.diplomacy.press.letters import EVERYBODY, Letter
from services.environments.diplomacy.press.promises import Verdict
from services.environments.diplomacy.rules.decisive_supports import decisive_supports
from services.environments.diplomacy.rules.movement import read_movement


@dataclass(slots=True)
class Conduct:
    """Sums over the movement phases of a game in which both powers had a unit: what one did to the other."""

    phases: int = 0
    letters: int = 0
    supports: int = 0  # orders that support or convoy one of its units
    effective_supports: int = 0  # supports without which something else had happened
    attacks: int = 0  # orders against it
    promises_kept: int = 0  # to it, of those that some legal order would have broken
    promises_broken: int = 0


Pair = tuple[str, str]  # the acting one and the other one


class ConductLog:
    """The conduct of every power to every other one in one game."""

    def __init__(self) -> None:
        self.pairs: dict[Pair, Conduct] = {}
        self.public: dict[str, int] = dict.fromkeys(POWERS, 0)  # letters to all
        self.phases: dict[str, int] = dict.fromkeys(POWERS, 0)  # movement phases in which the power had units

    def add(
        self,
        position: Position,
        orders: Mapping[str, Sequence[str]],
        results: Mapping[str, Sequence[str]],
        letters: Iterable[Letter],
        verdicts: Iterable[Verdict],
    ) -> None:
        """Count a movement phase: its legal orders, the engine's results, the letters before it and its verdicts."""
        standing = [power for power in POWERS if position.units.get(power)]
        for power in standing:
            self.phases[power] += 1
            given = orders.get(power, ())
            for other in standing:
                if other != power:
                    own = self.pairs.setdefault((power, other), Conduct())
                    own.phases += 1
                    own.supports += sum(helps(order, position, power, other) for order in given)
                    own.attacks += sum(is_against(order, position, power, other) for order in given)
        for letter in letters:
            if (pair := (letter.sender, letter.recipient)) in self.pairs:
                self.pairs[pair].letters += 1
            elif letter.recipient == EVERYBODY:
                self.public[letter.sender] += 1
        movement = read_movement(position.units, orders, results)
        for support in decisive_supports(movement):
            if (pair := (support.power, movement.orders[support.target].power)) in self.pairs:
                self.pairs[pair].effective_supports += 1
        for giver, partner, kept in tested_promises(verdicts):
            if (pair := (giver, partner)) in self.pairs:
                self.pairs[pair].promises_kept += kept
                self.pairs[pair].promises_broken += not kept

    def figures(self, power: str) -> dict[str, float]:
        """What a power did to all others together, and they to it: the outcomes of ``PRESS_MEASURES``."""
        given = [own for (acting, _), own in self.pairs.items() if acting == power]
        got = [own for (_, other), own in self.pairs.items() if other == power]
        phases = max(1, self.phases[power])

        def a_phase(conduct: Sequence[Conduct], count: str) -> float:
            return float(sum(getattr(each, count) for each in conduct)) / phases

        return {
            "letters": a_phase(given, "letters") + self.public[power] / phases,
            "promises": float(sum(each.promises_kept + each.promises_broken for each in given)),
            "promises_broken": float(sum(each.promises_broken for each in given)),
            "honesty": _honesty(given),
            "partners_promises": float(sum(each.promises_kept + each.promises_broken for each in got)),
            "partners_honesty": _honesty(got),
            "cross_supports": a_phase(given, "supports"),
            "cross_supports_received": a_phase(got, "supports"),
            "effective_cross_supports": a_phase(given, "effective_supports"),
            "effective_cross_supports_received": a_phase(got, "effective_supports"),
            "attacks": a_phase(given, "attacks"),
            "attacks_received": a_phase(got, "attacks"),
        }


def _honesty(conduct: Iterable[Conduct]) -> float:
    """The share of tested promises that were kept; 1 where there were none, which then weighs nothing."""
    kept = broken = 0
    for each in conduct:
        kept += each.promises_kept
        broken += each.promises_broken
    return kept / (kept + broken) if kept + broken else 1.0
