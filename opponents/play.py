"""Plays one whole game between seven policies, and records the turns and rewards of its learner seats."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from grpo_core.types import Episode, KeyValue, Turn
from opponents.matchmaking.lineup import LineupBlock
from opponents.players.policy import Policy
from opponents.seeds import derive_seed
from services.environments.diplomacy.alliances import AllianceLog
from services.environments.diplomacy.game import DiplomacyGame, Outcome
from services.environments.diplomacy.position import POWERS, Position, segment
from services.environments.diplomacy.rewards import final_parts, phase_parts, weigh
from services.inference.engine import LEARNER


@dataclass(slots=True)
class SeatRecord:
    """One learner seat: its turns with their rewards, and its reward parts summed over the game (unweighted)."""

    turns: list[Turn] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)
    _phases: list[int] = field(default_factory=list)  # game phase of each turn

    def add_turn(self, turn: Turn, phase: int) -> None:
        """Append a turn."""
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
        ends = [*self._phases[1:], phases]
        self.turns = [
            replace(turn, elapsed_phases=max(1, end - start))
            for turn, start, end in zip(self.turns, self._phases, ends, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class GameRecord:
    """A finished game."""

    start: Position
    outcome: Outcome
    learners: Mapping[str, SeatRecord]
    defective_orders: int  # illegal orders of all seats (the unit held)


async def play_game(
    game: DiplomacyGame,
    seats: Mapping[str, Policy],
    seed: int,
    *,
    learners: Collection[str] = (),
    reward_weights: Mapping[str, float] | None = None,
    discount: float = 1.0,
) -> GameRecord:
    """Play ``game`` from any position to its end; in every phase, all powers with a decision act concurrently.

    The turns of ``learners`` are recorded, with rewards weighted by ``reward_weights`` and discounted per game phase
    within a turn that lasts several (``discount`` is that of the returns-to-go). Raises ValueError if a power has no
    policy in ``seats``.
    """
    missing = [power for power in POWERS if power not in seats]
    if missing:
        raise ValueError(f"no policy for {', '.join(missing)}; seat all seven powers")
    weights = reward_weights or {}
    records = {power: SeatRecord() for power in learners}
    alliances = AllianceLog()
    start = game.position
    defective = phases = 0
    while not game.is_done:
        position = game.position
        powers = position.to_move
        decisions = await asyncio.gather(
            *(seats[power].act(position, power, derive_seed(seed, "decision", phases, power)) for power in powers)
        )
        for power, decision in zip(powers, decisions, strict=True):
            defective += len(game.set_orders(power, decision.orders))
            turn = decision.turn
            # A decision without a choice is no training data; its rewards are credited to the choice before it.
            if power in records and turn is not None and turn.trained_mask.any():
                records[power].add_turn(replace(turn, keys=_facts(position, power, alliances)), phases)
        if records:
            alliances.observe(position, game.orders)
        before = game.centers()
        game.process()
        after = game.centers()
        for power, record in records.items():
            record.add_rewards(phase_parts(before[power], after[power]), weights, phases, discount)
        phases += 1
    outcome = game.outcome()
    for power, record in records.items():
        record.add_rewards(final_parts(outcome, power), weights, max(0, phases - 1), discount)
        record.close(phases)
    return GameRecord(start, outcome, records, defective)


def _facts(position: Position, power: str, alliances: AllianceLog) -> dict[str, KeyValue]:
    """The facts known before a turn: ``opponents.settings.TURN_FACTS``."""
    return {
        "phase": position.phase,
        "segment": segment(position.phase),
        "own_centers": len(position.centers[power]),
        "alliance": alliances.fact(position, power),
    }


def make_episode(
    block: LineupBlock, member: int, power: str, record: GameRecord, reward_weights: Mapping[str, float]
) -> Episode:
    """The episode of one learner seat of one game of a block."""
    seat = record.learners[power]
    outcome = record.outcome
    centers = outcome.centers
    return Episode(
        episode_id=f"{block.block_id}/{member}",
        task="diplomacy",
        role=power,
        block_id=block.block_id,
        block_size=block.num_generations,
        keys={
            "country": power,
            "lineup": block.lineup,
            "start_year": record.start.year,
            "policy_opponents": sum(each == LEARNER or each.startswith("policy/") for _, each in block.opponents),
        },
        turns=tuple(seat.turns),
        reward=weigh(seat.parts, reward_weights),
        reward_parts=dict(seat.parts),
        outcome={
            "centers": float(centers[power]),
            "solo": float(outcome.kind == "solo" and power in outcome.winners),
            "draw": float(outcome.kind == "draw" and power in outcome.winners),
            "top": float(centers[power] == max(centers.values())),
            "survived": float(centers[power] > 0),
            "final_year": float(outcome.final_year),
            "phases": float(outcome.phases),
            "defective_orders": float(record.defective_orders),
        },
        seed=block.game_seed(member),
    )
