"""A game of any world that others play by text: prompts out, answers in, bots in the other seats.

    world = load_world("diplomacy")
    game = TextGame(world(world.game_settings(until_year=1902)), "FRANCE", seed=7, others="random")
    while game.waiting:
        for seat in game.waiting:
            game.answer(seat, write(game.messages(seat)))

It needs the worlds alone: no torch, no Ray, no tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_core.seeds import derive_seed
from services.environments.environment import World
from services.environments.playing import Bot, Defect, weigh
from services.environments.registry import load_world

Message = dict[str, str]  # role and content, as chat endpoints have them
LONGEST_ANSWER = 100_000  # characters of an answer that are read


def open_world(name: str, settings: Mapping[str, Any]) -> World:
    """A world by its name or import path, with the values of its section ``[game]``.

    Raises ValueError (WorldError, ValidationError) if there is no such world, or a value is wrong.
    """
    found = load_world(name)
    return found(found.game_settings.model_validate(dict(settings)))


def draw_role(world: World, seed: int, seats: Sequence[str] = ()) -> str:
    """Whose game it is where no role is named: by the seed, one of ``seats``, or of all roles if there are none."""
    among = tuple(dict.fromkeys(seats)) or world.roles
    return among[derive_seed(seed, "role") % len(among)]


class TextGame:
    """One game. Seats answer in any order; the game goes on when all that decide in a step have answered."""

    def __init__(
        self,
        world: World,
        role: str,
        seed: int,
        *,
        seats: Sequence[str] = (),
        others: str = "",
    ) -> None:
        """``seed`` draws start and game, ``role`` is whose game it is, and ``others`` plays what ``seats`` do not.

        ``seats`` are by default ``role`` alone. Raises ValueError for a role, seat or bot that the world does not have,
        and for ``seats`` without ``role``.
        """
        seats = tuple(dict.fromkeys(seats)) or (role,)  # a seat that is named twice is paid once
        if unknown := [each for each in (role, *seats) if each not in world.roles]:
            raise ValueError(
                f"{world.name} has no {world.role_name} {unknown[0]!r}; there are {', '.join(world.roles)}"
            )
        if role not in seats:
            raise ValueError(f"role: {role} is not among the seats {', '.join(seats)}, so nothing would be paid for it")
        if not world.has_opponents and (seats != (role,) or others):
            raise ValueError(
                f"{world.name} has one {world.role_name} a game: leave out seats other than role, and others"
            )
        table = world.roles if world.has_opponents else (role,)
        self._bots: dict[str, Bot] = {
            each: world.make_bot(others or next(iter(world.bots), "")) for each in table if each not in seats
        }
        self.world, self.role, self.seats = world, role, seats
        self._seed, self.game = seed, world.new_game(world.starts().draw(role, seed), role, seed)
        self._answers: dict[str, tuple[str, ...]] = {}
        self._phases = self._talks = 0
        self.rewards = dict.fromkeys(seats, 0.0)  # of the whole game so far
        self.defects: dict[str, list[Defect]] = {each: [] for each in seats}  # of each seat's latest answer
        self.waiting: tuple[str, ...] = ()  # the seats whose answer the game waits for; () once it is over
        self._go_on()

    @property
    def is_done(self) -> bool:
        """Whether the game is over."""
        return self.game.is_done

    @property
    def phase(self) -> str:
        """The present step by its short name, such as ``S1901M``."""
        return "" if self.game.is_done else self.game.phase

    @property
    def outcomes(self) -> Mapping[str, Mapping[str, float]]:
        """The figures of each seat once the game is over."""
        return {seat: dict(values) for seat, values in self.game.result().outcomes.items()}

    def messages(self, seat: str) -> list[Message]:
        """What a seat is asked, whole: each prompt says all that its answer needs."""
        parts = self.world.language.sections(self.game.view(seat), seat)
        return [
            {"role": speaker, "content": "\n\n".join(part.text for part in spoken)}
            for speaker, spoken in itertools.groupby(parts, key=lambda part: part.role)
        ]

    def answer(self, seat: str, text: str) -> list[Defect]:
        """Take a seat's text, and go on when it is the last one; return what was wrong with it.

        A text may be anything: what it does not say is left to the rules, as by any player. Raises ValueError for a
        seat that is not ``waiting``.
        """
        if seat not in self.waiting:
            awaited = ", ".join(self.waiting) or "no seat: it is over"
            raise ValueError(f"the game does not wait for {seat!r}, but for {awaited}")
        found = self.world.language.parse(text[:LONGEST_ANSWER], self.game.view(seat), seat)
        self.defects[seat] = list(found.defects)
        if found.defects:
            self.game.note_defects(seat, found.defects)
        self._answers[seat] = found.actions
        self.waiting = tuple(each for each in self.waiting if each != seat)
        if not self.waiting:
            self._step()
            self._go_on()
        return self.defects[seat]

    def _go_on(self) -> None:
        """Play steps until a seat has a choice, or the game ends."""
        while not self.game.is_done:
            self._answers, waiting = {}, []
            for seat in self.game.to_act():
                if seat in self._bots:
                    continue
                view = self.game.view(seat)
                slots = self.world.language.slots(view, seat)
                if slots is not None and all(len(slot.alternatives) == 1 for slot in slots):
                    self._answers[seat] = tuple(slot.alternatives[0] for slot in slots)
                else:
                    waiting.append(seat)
            if waiting:
                self.waiting = tuple(waiting)
                return
            self._step()

    def _step(self) -> None:
        game = self.game
        # The seeds of opponents.play: with the same answers it is the same game.
        here = ("decision", self._phases) if game.takes_time else ("talk", self._phases, self._talks)
        actions = {
            seat: self._bots[seat].actions(game.view(seat), seat, derive_seed(self._seed, *here, seat))
            if seat in self._bots
            else self._answers[seat]
            for seat in game.to_act()
        }
        self._phases, self._talks = (self._phases + 1, 0) if game.takes_time else (self._phases, self._talks + 1)
        self._pay(game.step(actions).parts)
        if game.is_done:
            self._pay(game.result().parts)

    def _pay(self, parts: Mapping[str, Mapping[str, float]]) -> None:
        for seat in self.seats:
            self.rewards[seat] += weigh(parts.get(seat, {}), self.world.reward_weights)
