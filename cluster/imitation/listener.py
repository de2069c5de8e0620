"""Learns a listener from saved games, writes it as a folder, and opens it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np
import torch

from cluster.actors.initial_policy import make_policy
from cluster.errors import RunError
from cluster.runs.new_folder import new_folder
from cluster.runs.provenance import provenance
from grpo_core.batching.microbatches import TrainingTurn, training_turn
from grpo_core.checkpoints.atomic_write import write_atomically
from grpo_core.errors import one_line
from grpo_core.files import read_json
from grpo_core.models.pretrained import load_model, save_model
from grpo_core.settings import PolicySettings
from grpo_core.training.behavior_cloning import BehaviorCloner
from opponents.listening.questions_asked import AskedGame, asked_game, listener_turns
from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
from services.environments.diplomacy.saved_game import read_saved_game
from services.environments.diplomacy.text.listener_language import ListenerLanguage
from services.inference.torch_backend.engine import TorchEngine

DOCUMENT = "listener.json"  # in its folder
FORMAT = 2
HELD_OUT = 0.1  # share of the games that is only measured
DECISIONS_PER_STEP = 64
Stage = Callable[[str, int], Callable[[int], None]]  # name and steps -> what is called with steps done


@dataclass(frozen=True, slots=True)
class LearnedListener:
    """How a listener was made."""

    format: int
    games: int
    learned_from: tuple[str, ...]  # names of their files
    partners: tuple[str, ...]  # the players it was asked about; empty: all
    turns: int
    epochs: int
    learning_rate: float
    seed: int
    nats_before: float  # a token, in games it has not learned from
    nats_after: float
    provenance: Mapping[str, object]


def read_games(
    files: Sequence[Path], stage: Stage, partners: Sequence[str] = (), most: int = 60, seed: int = 0
) -> list[AskedGame]:
    """The questions of these files; raises SavedGameError for one that is no saved game."""
    advance = stage("reading saved games", len(files))
    games = []
    for file in files:
        games.append(asked_game(read_saved_game(file), file.name, partners, most, seed))
        advance(1)
    return games


def learn_listener(
    games: Sequence[AskedGame],
    out: Path,
    stage: Stage,
    *,
    partners: Sequence[str] = (),
    epochs: int = 3,
    learning_rate: float = 2e-3,
    seed: int = 0,
) -> LearnedListener:
    """Learn from games, write the listener to the new folder ``out`` and return how it was made.

    Raises RunError if the folder is there already or the games have too few promises, DivergenceError if learning
    diverges.
    """
    language = ListenerLanguage()
    model, tokenizer = make_policy(PolicySettings(), seed, language)
    tokens = TokenizedLanguage(language, tokenizer)
    by_game = [_ready(tokens, game, seed) for game in games]
    rng = np.random.Generator(np.random.PCG64(seed))
    shuffled = [by_game[index] for index in rng.permutation(len(by_game))]
    kept_out = max(1, round(HELD_OUT * len(games)))
    measured, learned = list(chain(*shuffled[:kept_out])), list(chain(*shuffled[kept_out:]))
    if not (measured and learned):
        raise RunError(
            f"{len(games)} games have {len(learned)} questions to learn from and {len(measured)} to measure on; save "
            "more games with press: entente evaluate honest --press --against breaker --save-games games/press"
        )
    per_epoch = max(1, len(learned) // DECISIONS_PER_STEP)
    torch.set_num_threads(min(4, torch.get_num_threads()))
    # A judgement is one token and a sheet of orders many: by tokens the listener would hardly learn to judge.
    steps = epochs * per_epoch
    cloner = BehaviorCloner(model, learning_rate=learning_rate, steps=steps, normalizer="turn")
    before = cloner.held_out(measured)
    advance = stage(f"learning from {len(learned):,} questions", steps)
    for _ in range(epochs):
        for share in np.array_split(rng.permutation(len(learned)), per_epoch):
            cloner.step([learned[index] for index in share])
            advance(1)
    made = LearnedListener(
        FORMAT, len(games), tuple(game.name for game in games), tuple(partners), len(learned), epochs, learning_rate,
        seed, before, cloner.held_out(measured), provenance(),
    )  # fmt: skip
    with new_folder(out) as draft:
        save_model(model, tokenizer, draft)
        write_atomically(draft / DOCUMENT, msgspec.json.format(msgspec.json.encode(asdict(made))) + b"\n")
    return made


def open_listener(folder: Path) -> tuple[LLMPolicy, frozenset[str]]:
    """Open a listener; returns it with the names of the games that it has learned from.

    Raises RunError if the folder is none, CheckpointError if its files are damaged.
    """
    try:
        document = read_json(folder / DOCUMENT)
    except (OSError, ValueError) as error:
        raise RunError(
            f"{folder} is no listener ({one_line(error, 120)}): name a folder that `entente listen learn` wrote"
        ) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise RunError(f"{folder} is a listener of another version; learn it again")
    model, tokenizer = load_model(folder)
    tokens = TokenizedLanguage(ListenerLanguage(), tokenizer)
    return LLMPolicy(TorchEngine(model), tokens), frozenset(map(str, document.get("learned_from", ())))


def _ready(tokens: TokenizedLanguage, game: AskedGame, seed: int) -> list[TrainingTurn]:
    return [training_turn(turn, index, 0, 0) for index, turn in enumerate(listener_turns(tokens, game, seed))]
