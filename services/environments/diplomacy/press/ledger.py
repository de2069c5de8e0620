"""The promises of one game: those that still hold, and what came of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from services.environments.diplomacy.position import Position
from services.environments.diplomacy.press.promises import Promise, Verdict, verdict


@dataclass(slots=True)
class Account:
    """Promises of one power to another that were tested, by what came of them."""

    kept: int = 0
    broken: int = 0

    @property
    def honesty(self) -> float | None:
        """The share that was kept; None without any."""
        total = self.kept + self.broken
        return self.kept / total if total else None


class Ledger:
    """Follows the promises of one game: those that still hold, and what came of each in every phase."""

    def __init__(self) -> None:
        self._holding: list[Promise] = []
        self.verdicts: list[Verdict] = []
        self.accounts: dict[tuple[str, str], Account] = {}  # (giver, partner) -> its account

    def holding(self, phase: str) -> tuple[Promise, ...]:
        """The earlier promises that bind in a movement phase."""
        return tuple(promise for promise in self._holding if promise.holds_in(phase))

    def settle(
        self,
        position: Position,
        promises: Iterable[Promise],
        orders: Mapping[str, Sequence[str]],
        wanting_draw: Iterable[str] = (),
    ) -> tuple[Verdict, ...]:
        """Compare the legal orders of a movement phase with what was promised before it; a broken promise ends."""
        wanting = frozenset(wanting_draw)
        bound = dict.fromkeys((*self.holding(position.phase), *promises))
        found = tuple(
            verdict(promise, position, orders.get(promise.giver, ()), wants_draw=promise.giver in wanting)
            for promise in _without_repetitions(bound)
        )
        self._holding = [each.promise for each in found if each.kept]
        self.verdicts.extend(found)
        for each in found:
            if each.tested:
                account = self.accounts.setdefault((each.promise.giver, each.promise.partner), Account())
                account.kept += each.kept
                account.broken += not each.kept
        return found


def _without_repetitions(promises: Iterable[Promise]) -> list[Promise]:
    """One promise of each content, the earliest: a peace that is agreed again in fall counts once."""
    first: dict[tuple[str, str, str, str], Promise] = {}
    for promise in promises:
        first.setdefault((promise.giver, promise.partner, promise.kind, promise.about), promise)
    return list(first.values())
