"""Demonstrations: turns that a policy can imitate, from games of teachers and from saved games."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from grpo_core.seeds import derive_seed
from grpo_core.types import Turn
from opponents.play import play_game
from opponents.players.llm_policy import TokenizedLanguage, make_turn
from services.environments.environment import World
from services.environments.playing import Decision, Policy, Slot, View
from services.environments.settings import ImitationSettings
from services.inference.sequence import free_generation, teacher_forced_generation
from services.inference.token_masks import ConstraintError


def demonstration_turn(tokens: TokenizedLanguage, view: View, seat: str, actions: Sequence[str]) -> Turn:
    """Make the turn of a policy that writes these legal actions; the log-probabilities are unknown (0).

    What the actions leave open is written as the world says. A policy that thinks first gets an empty thought, since
    the teacher's is not known.
    """
    slots = tokens.slots(view, seat)
    try:
        return _demonstration(tokens, view, seat, actions, slots)
    except ConstraintError:  # a teacher may do what coordinated decoding excludes
        return _demonstration(tokens, view, seat, actions, tokens.slots(view, seat, legal=True))


def _demonstration(
    tokens: TokenizedLanguage, view: View, seat: str, actions: Sequence[str], slots: tuple[Slot, ...] | None
) -> Turn:
    written = tokens.language.written(actions, view, seat)
    if slots is None:
        generation = free_generation(tokens.text_ids("\n".join(written)), tokens.thought)
        return make_turn(tokens.prompt(view, seat), generation, "")
    constraint = tokens.constraint(slots)
    ids = [
        token
        for slot, limits, line in zip(slots, constraint.slots, written, strict=True)
        for token in (*limits.note, *limits.alternatives[slot.alternatives.index(line)])
    ]
    generation = teacher_forced_generation(constraint, [*ids, constraint.end_id], tokens.thought)
    return make_turn(tokens.prompt(view, seat), generation, "")


class RecordingPlayer:
    """A player whose decisions are recorded as turns of the policy that will imitate it."""

    def __init__(self, player: Policy, tokens: TokenizedLanguage) -> None:
        self._player = player
        self._tokens = tokens

    async def act(self, view: View, seat: str, seed: int) -> Decision:
        """The player's actions, with their turn."""
        decision = await self._player.act(view, seat, seed)
        if self._tokens.slots(view, seat) == ():  # the policy has nothing to write here
            return Decision(decision.actions)
        return Decision(decision.actions, demonstration_turn(self._tokens, view, seat, decision.actions))


async def demonstrate_game(
    world: World, settings: ImitationSettings, tokens: TokenizedLanguage, number: int, seed: int
) -> list[Turn]:
    """Play game ``number`` of a teacher in all seats, or in those the world leaves it; its turns with a choice.

    ``world`` is as imitation plays it. Roles rotate where the teacher has one seat.
    """
    role = world.roles[number % len(world.roles)]
    seats = world.roles if world.has_opponents else (role,)
    game = world.new_game(world.starts().draw(role, derive_seed(seed, "start")), role, seed)
    others = world.make_others(settings, role, derive_seed(seed, "others"))
    taught = [seat for seat in seats if seat not in others]
    teacher = RecordingPlayer(world.make_teacher(settings, game), tokens)
    record = await play_game(game, {**dict.fromkeys(taught, teacher), **others}, seed, learners=taught)
    return [turn for seat in taught for turn in record.learners[seat].turns]


def saved_demonstrations(
    world: World, settings: ImitationSettings, file: Path, tokens: TokenizedLanguage
) -> Iterator[Turn]:
    """Yield the turns with a choice from a saved game; raises as ``World.saved_demonstrations``."""
    for shown in world.saved_demonstrations(settings, file):
        turn = demonstration_turn(tokens, shown.view, shown.seat, shown.actions)
        if turn.trained_mask.any():
            yield replace(turn, phase=shown.phase)
