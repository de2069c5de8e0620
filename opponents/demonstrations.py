"""Demonstrations: turns that a policy can imitate, from games that bots play and from saved games."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from grpo_core.types import Turn
from opponents.play import play_game
from opponents.players.llm_policy import OrderTokens, make_turn
from opponents.players.policy import Decision, Policy
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.orders import WAIVE, OrderSlot, check, sheet
from services.environments.diplomacy.played_phases import played_phases
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.saved_game import read_saved_game
from services.inference.sequence import teacher_forced_generation


def demonstration_turn(tokens: OrderTokens, position: Position, power: str, orders: Sequence[str]) -> Turn:
    """Make the turn of a policy that writes these legal orders; the log-probabilities are unknown (0).

    A unit without an order holds (or disbands), and a build without one is waived. A policy that thinks first gets an
    empty thought, since the teacher's is not known.
    """
    slots = sheet(position, power)
    constraint = tokens.constraint(slots)
    chosen = _by_slot(slots, orders, position, power)
    ids = [
        token
        for slot, limits, order in zip(slots, constraint.slots, chosen, strict=True)
        for token in limits.alternatives[slot.alternatives.index(order)]
    ]
    generation = teacher_forced_generation(constraint, [*ids, constraint.end_id], tokens.thought)
    return make_turn(tokens.prompt(position, power), generation, position.phase)


class RecordingPlayer:
    """A player whose decisions are recorded as turns of the policy that will imitate it."""

    def __init__(self, player: Policy, tokens: OrderTokens) -> None:
        self._player = player
        self._tokens = tokens

    async def act(self, position: Position, power: str, seed: int) -> Decision:
        """The player's orders, with their turn."""
        decision = await self._player.act(position, power, seed)
        return Decision(decision.orders, demonstration_turn(self._tokens, position, power, decision.orders))


async def demonstrate_game(player: Policy, tokens: OrderTokens, until_year: int, seed: int) -> list[Turn]:
    """Play one game with the same player in all seven seats; returns the turns with a choice."""
    game = DiplomacyGame(until_year)
    record = await play_game(game, dict.fromkeys(POWERS, RecordingPlayer(player, tokens)), seed, learners=POWERS)
    return [turn for power in POWERS for turn in record.learners[power].turns]


def saved_demonstrations(file: Path, tokens: OrderTokens) -> Iterator[Turn]:
    """Yield the turns with a choice from a game in the engine's saved format.

    Illegal orders are left out, as are powers without a legal order in a phase: they were absent, or their orders are
    in another notation. Raises SavedGameError if the file is not a saved game.
    """
    DiplomacyGame.load(file, 1999)  # checks more than its form
    for phase in played_phases(read_saved_game(file), str(file)):
        for power in phase.position.to_move:
            orders = check(phase.orders.get(power, ()), phase.position, power).orders
            if not orders:
                continue
            turn = demonstration_turn(tokens, phase.position, power, orders)
            if turn.trained_mask.any():
                yield turn


def _by_slot(slots: Sequence[OrderSlot], orders: Sequence[str], position: Position, power: str) -> tuple[str, ...]:
    """Find an order for every slot. Builds and disbands, whose sequence is free, are sorted, with waivers last."""
    if position.kind == "A":
        given = sorted(order for order in orders if order != WAIVE)[: len(slots)]
        if position.adjustments[power] > 0:
            return (*given, *[WAIVE] * (len(slots) - len(given)))
        others = [order for order in (slots[0].alternatives if slots else ()) if order not in given]
        return (*given, *others[: len(slots) - len(given)])
    by_place = {order[2:].partition(" ")[0]: order for order in orders}
    default = "H" if position.kind == "M" else "D"
    return tuple(
        by_place.get(place) or next(order for order in slot.alternatives if order.endswith(f" {default}"))
        for place, slot in zip(position.orderable[power], slots, strict=True)
    )
