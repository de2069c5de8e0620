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
        """Compare the legal orders of a movement phase with what was promised before it.

        A broken promise ends, and so does what the partner has promised in return. An order that a power has asked for
        never breaks another promise to it; one that was only announced to it may, such as an attack under a peace. In
        the accounts PEACE and ALLY of a pair are one promise a phase.
        """
        wanting = frozenset(wanting_draw)
        bound = dict.fromkeys((*self.holding(position.phase), *promises))
        asked_for = {(each.giver, each.partner, each.about) for each in bound if each.is_asked_for}

        def judged(promise: Promise) -> Verdict:
            given = orders.get(promise.giver, ())
            if promise.kind != "ORDER":
                given = [order for order in given if (promise.giver, promise.partner, order) not in asked_for]
            return verdict(promise, position, given, wants_draw=promise.giver in wanting)

        found = tuple(map(judged, without_repetitions(bound)))
        ended = {_mirrored(each.promise) for each in found if not each.kept}
        self._holding = [each.promise for each in found if each.kept and _content(each.promise) not in ended]
        self.verdicts.extend(found)
        self._count(found)
        return found

    def _count(self, verdicts: Iterable[Verdict]) -> None:
        for giver, partner, is_kept in tested_promises(verdicts):
            account = self.accounts.setdefault((giver, partner), Account())
            account.kept += is_kept
            account.broken += not is_kept


def tested_promises(verdicts: Iterable[Verdict]) -> list[tuple[str, str, bool]]:
    """Giver, partner and whether it was kept, of each tested promise of a phase; PEACE and ALLY of a pair are one."""
    kept: dict[tuple[str, ...], bool] = {}
    for each in verdicts:
        if each.tested:
            giver, partner, kind, about = _content(each.promise)
            one = (giver, partner) if kind in ("PEACE", "ALLY") else (giver, partner, kind, about)
            kept[one] = kept.get(one, True) and each.kept
    return [(giver, partner, is_kept) for (giver, partner, *_), is_kept in kept.items()]


def without_repetitions(promises: Iterable[Promise]) -> tuple[Promise, ...]:
    """One promise of each content, the earliest: a peace that is agreed again in fall counts once."""
    first: dict[tuple[str, str, str, str], Promise] = {}
    for promise in promises:
        first.setdefault(_content(promise), promise)
    return tuple(first.values())


def _content(promise: Promise) -> tuple[str, str, str, str]:
    return promise.giver, promise.partner, promise.kind, promise.about


def _mirrored(promise: Promise) -> tuple[str, str, str, str]:
    return promise.partner, promise.giver, promise.kind, promise.about
