"""Golden games: the same seeds give the same prompts, masks, orders, rewards and keys, bit for bit.

The writer is a uniform draw under the masks, so the digests hold on every machine and whatever the model library does.
They change when the words, the notation, the rules of seeds or the engine of the game do: then a run that is resumed is
another run, and the new digests belong into the commit that says why.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from typing import cast

import numpy as np

from opponents.play import GameRecord, play_game
from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rules.orders import WORD_PATTERN
from services.environments.diplomacy.text.notation import words
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import Policy
from services.inference.engine import Engine, Generation, GenerationRequest
from services.inference.sampling import uniforms
from services.inference.sequence import ModelLimits, RunningSequence, initial_state
from services.inference.word_tokenizer import make_word_tokenizer

TOKENIZER = make_word_tokenizer(words(), WORD_PATTERN)
WEIGHTS = {"center_change": 0.5, "centers": 0.1, "survival": 0.25}


class UniformEngine:
    """The part of an engine that a policy uses; every choice is uniform over the admissible tokens."""

    async def generate(self, request: GenerationRequest) -> Generation:
        limits = ModelLimits.of(len(TOKENIZER), (), 512)
        sequence = RunningSequence(request, initial_state(request, limits))
        while not sequence.over:
            admissible = sequence.state.admissible()
            (draw,) = uniforms(np.array([sequence.stream], np.uint64), np.array([sequence.sampled], np.uint64))
            sequence.accept(int(admissible[int(draw * len(admissible))]), -1.0, admissible)
        return sequence.generation(0)


def play(seats: Mapping[str, Policy], until_year: int, seed: int) -> tuple[str, int]:
    """Digest of the final board and of the learners' records, and their number of turns."""
    game = DiplomacyGame(until_year)
    learners = [power for power in POWERS if isinstance(seats[power], LLMPolicy)]
    record = asyncio.run(play_game(game, seats, seed, learners=learners, reward_weights=WEIGHTS, discount=0.9))
    return digest(game, record), sum(len(seat.turns) for seat in record.learners.values())


def digest(game: DiplomacyGame, record: GameRecord) -> str:
    whole = hashlib.blake2b(digest_size=8)

    def add(value: object) -> None:
        whole.update(json.dumps(value, sort_keys=True).encode())

    add([game.hash(), game.outcome().phases, record.defects, dict(game.outcome().centers)])
    for power, seat in record.learners.items():
        add([power, seat.parts])
        for turn in seat.turns:
            add([turn.phase, turn.reward, turn.elapsed_phases, dict(turn.keys), turn.defects])
            for array in (
                turn.prompt_ids,
                turn.completion_ids,
                turn.trained_mask,
                turn.admissible_ids,
                turn.admissible_offsets,
            ):
                add(str(array.dtype))
                whole.update(array.tobytes())
    return whole.hexdigest()


def test_games_of_one_policy_in_all_seats_repeat_bit_for_bit() -> None:
    policy = LLMPolicy(cast(Engine, UniformEngine()), TokenizedLanguage(Diplomacy.language, TOKENIZER))
    games = [play(dict.fromkeys(POWERS, policy), 1905, seed) for seed in range(2)]
    assert games == [("af8ff1f89c831505", 81), ("3164ad7e45d37214", 81)]


def test_games_of_a_policy_among_bots_repeat_bit_for_bit() -> None:
    policy = LLMPolicy(cast(Engine, UniformEngine()), TokenizedLanguage(Diplomacy.language, TOKENIZER))
    bots = [make_bot(name) for name in ("random", "greedy", "dumbbot", "hold", "random", "random")]
    games = []
    for seed, power in enumerate(("ENGLAND", "TURKEY")):
        others = iter(bots)
        seats = {name: policy if name == power else next(others) for name in POWERS}
        games.append(play(seats, 1907, seed))
    assert games == [("12e6913e51375b36", 12), ("db76cf0942ee8348", 16)]
