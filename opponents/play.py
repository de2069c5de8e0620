"""Plays one whole game of any world, and records the turns and rewards of its learner seats."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from grpo_core.seeds import derive_seed
from grpo_core.types import Episode, KeyValue, Turn
from opponents.matchmaking.lineup import LineupBlock
from services.environments.environment import LINEUP_FACT, POLICY_OPPONENTS_FACT, World
from services.environments.playing import Bot, Decision, Game, Parts, Policy, Result, weigh
from services.inference.engine import LEARNER


class Credit(Protocol):
    """Reward parts that the game itself does not know, such as those for talk."""

    async def earned(
        self, game: Game, seat: str, seats: Mapping[str, Policy], decisions: Mapping[str, Decision]
    ) -> Parts:
        """What a learner seat earns by what came before ``decisions``, which the game has not taken yet."""
        ...


@dataclass(slots=True)
class SeatRecord:
    """One learner seat: its turns with their rewards, and its reward parts summed over the game (unweighted)."""

    turns: list[Turn] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)
    start_facts: Mapping[str, KeyValue] = field(default_factory=dict)  # known before the game
    _phases: list[int] = field(default_factory=list)  # game phase of each turn

    def add_turn(self, turn: Turn, phase: int) -> None:
        """Append a turn of game phase ``phase``."""
        self.turns.append(turn)
        self._phases.append(phase)

    def add_rewards(
        self, parts: Mapping[str, float], weights: Mapping[str, float], phase: int, discount: float
    ) -> None:
        """Credit reward parts, earned in game phase ``phase``, to the latest turn, discounted by the phases since.

        Before the first turn, parts count for the episode only.
        """
        for name, value in parts.items():
            self.parts[name] = self.parts.get(name, 0.0) + value
        amount = weigh(parts, weights)
        if self.turns and amount:
            amount *= discount ** (phase - self._phases[-1])
            self.turns[-1] = replace(self.turns[-1], reward=self.turns[-1].reward + amount)

    def close(self, phases: int) -> None:
        """Set each turn's number of game phases until the seat's next turn; the game has ``phases`` phases."""
        ends = [*self._phases[1:], phases][: len(self.turns)]  # none for a seat that never had a choice
        self.turns = [
            replace(turn, elapsed_phases=end - start)
            for turn, start, end in zip(self.turns, self._phases, ends, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class GameRecord:
    """A finished game."""

    result: Result
    learners: Mapping[str, SeatRecord]
    defects: int  # actions of all seats that could not be used


async def play_game(
    game: Game,
    seats: Mapping[str, Policy],
    seed: int,
    *,
    learners: Collection[str] = (),
    reward_weights: Mapping[str, float] | None = None,
    discount: float = 1.0,
    credit: Credit | None = None,
) -> GameRecord:
    """Play ``game`` from where it is to its end; in every step, all seats with a decision act concurrently.

    The turns of ``learners`` are recorded, with rewards weighted by ``reward_weights`` and discounted per step that
    takes time within a turn that lasts several (``discount`` is that of the returns-to-go). ``credit`` pays learners
    before each such step, at the turn before it. Raises ValueError if a seat that has to act has no policy.
    """
    weights = reward_weights or {}
    records = {seat: SeatRecord(start_facts=game.start_facts(seat)) for seat in learners}
    defects = phases = talks = 0
    while not game.is_done:
        acting = game.to_act()
        missing = [seat for seat in acting if seat not in seats]
        if missing:
            raise ValueError(f"no policy for {', '.join(missing)}; seat everyone who has to act")
        takes_time = game.takes_time
        # Without talk the seeds are those of the same game without press.
        here = ("decision", phases) if takes_time else ("talk", phases, talks)
        decisions = await _decide(game, seats, acting, (seed, *here))
        if credit is not None and takes_time:
            for seat, record in records.items():
                earned = await credit.earned(game, seat, seats, decisions)
                record.add_rewards(earned, weights, phases, discount)
        for seat, decision in decisions.items():
            turn = decision.turn
            if decision.defects:
                game.note_defects(seat, decision.defects)
            # A decision without a choice is no training data; its rewards are credited to the choice before it.
            if seat in records and turn is not None and turn.trained_mask.any():
                records[seat].add_turn(replace(turn, phase=game.phase, keys=game.facts(seat)), phases)
        step = game.step({seat: decision.actions for seat, decision in decisions.items()})
        defects += step.defects
        for seat, record in records.items():
            record.add_rewards(step.parts.get(seat, {}), weights, phases, discount)
        phases, talks = (phases + 1, 0) if takes_time else (phases, talks + 1)
    result = game.result()
    for seat, record in records.items():
        record.add_rewards(result.parts.get(seat, {}), weights, max(0, phases - 1), discount)
        record.close(phases)
    return GameRecord(result, records, defects)


async def _decide(
    game: Game, seats: Mapping[str, Policy], acting: Sequence[str], seeds: tuple[int | str, ...]
) -> dict[str, Decision]:
    """The decisions of a step, in the order of ``acting``; all are asked at once, but bots, which never wait."""

    def ask(seat: str) -> Awaitable[Decision]:
        return seats[seat].act(game.view(seat), seat, derive_seed(*seeds, seat))

    found = {seat: await ask(seat) for seat in acting if isinstance(seats[seat], Bot)}
    asked = [seat for seat in acting if seat not in found]
    if len(asked) == 1:
        found[asked[0]] = await ask(asked[0])
    elif asked:
        found.update(zip(asked, await asyncio.gather(*map(ask, asked)), strict=True))
    return {seat: found[seat] for seat in acting}


def make_episode(world: World, block: LineupBlock, member: int, role: str, record: GameRecord) -> Episode:
    """The episode of one learner seat of one game of a block."""
    seat = record.learners[role]
    lineup: dict[str, KeyValue] = {}
    policies: dict[str, KeyValue] = {}
    if world.has_opponents:
        trained = sum(each == LEARNER or each.startswith(("policy/", "player/")) for _, each in block.opponents)
        lineup, policies = {LINEUP_FACT: block.lineup}, {POLICY_OPPONENTS_FACT: trained}
    return Episode(
        episode_id=f"{block.block_id}/{member}",
        task=world.name,
        role=role,
        block_id=block.block_id,
        block_size=block.num_generations,
        keys={world.role_name: role, **lineup, **seat.start_facts, **policies},
        turns=tuple(seat.turns),
        reward=weigh(seat.parts, world.reward_weights),
        reward_parts=dict(seat.parts),
        outcome=dict(record.result.outcomes[role]),
        seed=block.game_seed(member),
    )
