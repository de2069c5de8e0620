"""Playing whole games without a cluster; rewards are credited to the turns that earned them."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from grpo_core.advantages.returns import returns_to_go
from grpo_core.types import Turn
from opponents.matchmaking.matchmaker import Matchmaker
from opponents.play import SeatRecord, make_episode, play_game
from opponents.population.population import Population
from services.environments.diplomacy.alliances import AllianceLog
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.environments.environment import LINEUP_FACT, POLICY_OPPONENTS_FACT
from services.environments.playing import Decision, Policy
from services.replay.codec import decode, encode


def turn(phase: str, trained: bool = True) -> Turn:
    ids = np.array([1], dtype=np.int32)
    return Turn(
        prompt_ids=ids,
        completion_ids=ids,
        logprobs=np.zeros(1, dtype=np.float32),
        trained_mask=np.array([trained]),
        admissible_ids=np.array([1, 2], dtype=np.int32),
        admissible_offsets=np.array([0, 2], dtype=np.int32),
        policy_version=0,
        temperature=1.0,
        phase=phase,
    )


class RememberingBot:
    """Plays greedily and records a turn for every decision, as a language model does."""

    def __init__(self) -> None:
        self.bot = make_bot("greedy")

    async def act(self, position: Position, power: str, seed: int) -> Decision:
        orders = (await self.bot.act(position, power, seed)).actions
        return Decision(orders, turn(position.phase, trained=position.kind != "A"))


def seats(learner: str) -> dict[str, Policy]:
    return {power: RememberingBot() if power == learner else make_bot("random") for power in POWERS}


SEGMENTS = ("opening", "midgame")


def bots_only() -> Population:
    population = Population(Path("population.json"))
    population.add_bot("random")
    return population


def test_turn_rewards_and_elapsed_phases_add_up_to_the_game() -> None:
    game = DiplomacyGame(1903)
    record = asyncio.run(
        play_game(
            game, seats("FRANCE"), 11, learners=("FRANCE",), reward_weights={"center_change": 2.0, "centers": 0.5}
        )
    )
    seat = record.learners["FRANCE"]
    centers = game.outcome().centers["FRANCE"]
    assert seat.parts["center_change"] == centers - 3
    assert sum(t.reward for t in seat.turns) == pytest.approx(2.0 * (centers - 3) + 0.5 * centers)
    # Adjustments left no choice here, so they are no turns; their phases count as elapsed all the same.
    assert {t.phase[-1] for t in seat.turns} <= {"M", "R"}
    assert sum(t.elapsed_phases for t in seat.turns) == game.outcome().phases
    first = seat.turns[0]
    assert first.keys == {"phase": "S1901M", "segment": "opening", "own_centers": 3, "alliance": "none"}


def test_alliance_facts_are_from_before_the_segment_and_survive_the_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Position, dict[str, tuple[str, ...]]]] = []
    process = DiplomacyGame.process

    def watched(game: DiplomacyGame) -> None:
        seen.append((game.position, dict(game.orders)))
        process(game)

    monkeypatch.setattr(DiplomacyGame, "process", watched)
    facts = set()
    for seed in range(4):  # among random neighbours, some games without an ally and some with
        seen.clear()
        record = asyncio.run(play_game(DiplomacyGame(1904), seats("FRANCE"), seed, learners=("FRANCE",)))
        log = AllianceLog()
        for position, orders in seen:
            if position.year < 1904:
                log.observe(position, orders)
        first = next(position for position, _ in seen if position.year == 1904)
        turns = record.learners["FRANCE"].turns
        by_segment = {name: {t.keys["alliance"] for t in turns if t.keys["segment"] == name} for name in SEGMENTS}
        assert by_segment == {"opening": {"none"}, "midgame": {log.fact(first, "FRANCE")}}
        facts |= by_segment["midgame"]
        block = Matchmaker(bots_only(), Diplomacy(GameSettings()), 1, seed=3).block(0)
        episode = make_episode(Diplomacy(GameSettings()), block, 0, "FRANCE", record)
        assert [t.keys for t in decode(encode(episode)).turns] == [t.keys for t in turns]
    assert "none" in facts
    assert facts - {"none"}


def test_a_game_is_reproduced_by_its_seed_and_changed_by_another() -> None:
    def final(seed: int) -> dict[str, int]:
        game = DiplomacyGame(1902)
        asyncio.run(play_game(game, seats("ITALY"), seed))
        return game.centers()

    assert final(5) == final(5)
    assert len({tuple(sorted(final(seed).items())) for seed in range(4)}) > 1


def test_a_missing_seat_is_named() -> None:
    players = seats("ITALY")
    del players["RUSSIA"]
    with pytest.raises(ValueError, match="RUSSIA"):
        asyncio.run(play_game(DiplomacyGame(1901), players, 0))


def test_episodes_carry_their_keys_and_outcome(tmp_path: Path) -> None:
    population = Population(tmp_path / "population.json")
    population.add_bot("random")
    world = Diplomacy(GameSettings(until_year=1901, reward={"center_change": 1.0}))
    block = Matchmaker(population, world, 2, seed=3).block(0)
    power = block.role
    game = world.new_game("", power, block.game_seed(1))
    weights = world.reward_weights
    record = asyncio.run(play_game(game, seats(power), block.game_seed(1), learners=(power,), reward_weights=weights))
    episode = make_episode(world, block, 1, power, record)
    assert episode.episode_id == f"{block.block_id}/1"
    assert episode.role == power
    assert episode.keys == {
        "country": power,
        "lineup": block.lineup,
        "start_year": 1901,
        "scenario": "none",
        "policy_opponents": 0,
    }
    assert set(episode.keys) == {world.role_name, LINEUP_FACT, POLICY_OPPONENTS_FACT, *world.episode_facts}
    opponents = (("FRANCE", "policy/v20"), ("ITALY", "learner"), ("RUSSIA", "bot/random"))
    episode = make_episode(world, dataclasses.replace(block, opponents=opponents), 1, power, record)
    assert episode.keys["policy_opponents"] == 2
    assert episode.outcome["centers"] == game.centers()[power]
    assert episode.reward == pytest.approx(sum(t.reward for t in episode.turns))


def test_rewards_before_the_first_turn_count_for_the_episode_only() -> None:
    seat = SeatRecord()
    seat.add_rewards({"center_change": 1.0}, {"center_change": 1.0}, 1, 0.5)
    seat.add_turn(turn("F1901M"), 3)
    seat.add_rewards({"center_change": -2.0}, {"center_change": 1.0}, 3, 0.5)
    seat.close(5)
    assert seat.parts == {"center_change": -1.0}
    assert [(t.reward, t.elapsed_phases) for t in seat.turns] == [(-2.0, 2)]


def test_a_reward_has_the_same_return_with_or_without_a_turn_in_between() -> None:
    """A centre in phase 3: the return-to-go of the turn in phase 0 counts three phases of discount either way."""

    def first_return(turn_phases: list[int]) -> float:
        seat = SeatRecord()
        for phase in range(5):
            if phase in turn_phases:
                seat.add_turn(turn("S1901M"), phase)
            seat.add_rewards({"center_change": float(phase == 3)}, {"center_change": 1.0}, phase, 0.5)
        seat.close(5)
        return float(returns_to_go(seat.turns, 0.5)[0])

    assert first_return([0]) == first_return([0, 2]) == first_return([0, 1, 3]) == first_return([0, 4]) == 0.5**3
