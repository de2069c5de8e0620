"""A small policy with pronounced preferences, positions with few legal sheets, and the exact probability of each."""

from __future__ import annotations

import copy
import math
from itertools import product

import numpy as np
import torch
from transformers import PreTrainedModel

from grpo_core.models.pretrained import make_small_model
from grpo_core.settings import PolicySettings
from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
from services.environments.diplomacy.position import Position
from services.environments.diplomacy.rules.orders import WORD_PATTERN
from services.environments.diplomacy.text.notation import words
from services.environments.diplomacy.text.notes import note_words
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import Slot
from services.inference.sequence import teacher_forced_generation
from services.inference.torch_backend.engine import TorchEngine
from services.inference.word_tokenizer import make_word_tokenizer
from tests.unit.opponents.played_games import played_positions
from tests.unit.services.inference.torch_backend.cases import perturbed

TOKENIZER = make_word_tokenizer((*words(), *note_words()), WORD_PATTERN)


def peaked_policy(
    temperature: float = 1.0, *, notes: bool = False, **changes: object
) -> tuple[LLMPolicy, PreTrainedModel]:
    """A policy whose distributions are far from uniform, and a copy of its model to compare with."""
    torch.set_num_threads(1)
    settings = PolicySettings(hidden_size=32, layers=2, intermediate_size=32)
    model = perturbed(
        make_small_model(
            settings,
            len(TOKENIZER),
            eos_id=TOKENIZER.eos_token_id,
            bos_id=TOKENIZER.bos_token_id,
            pad_id=TOKENIZER.pad_token_id,
            seed=0,
        )
    )
    policy = LLMPolicy(
        TorchEngine(copy.deepcopy(model)),
        TokenizedLanguage(Diplomacy.language, TOKENIZER, PolicySettings(notes=notes)),
        temperature=temperature,
        **{"max_completion_length": 448, **changes},
    )
    return policy, model


def legal_sheets(slots: tuple[Slot, ...]) -> list[tuple[str, ...]]:
    """Every legal sheet, each sequence of builds or disbands for itself."""
    sheets = []
    for picks in product(*(range(len(slot.alternatives)) for slot in slots)):
        claims = [slot.claims[pick] for slot, pick in zip(slots, picks, strict=True)]
        taken = [claim for claim in claims if claim is not None]
        if len(taken) == len(set(taken)):
            sheets.append(tuple(slot.alternatives[pick] for slot, pick in zip(slots, picks, strict=True)))
    return sheets


def small_decisions(kinds: str = "MRA", most: int = 150) -> list[tuple[Position, str]]:
    """One decision of each kind of phase with between 3 and ``most`` legal sheets, with two slots at least."""
    found: dict[str, tuple[Position, str]] = {}
    for seed in range(6):
        for position in played_positions("greedy", 1906, seed):
            for power in position.to_move:
                slots = Diplomacy.language.slots(position, power)
                several = len(slots) > 1 or position.kind == "R"
                if position.kind in kinds and position.kind not in found and several:
                    sheets = math.prod(len(slot.alternatives) for slot in slots)
                    if 2 < sheets <= most:
                        found[position.kind] = position, power
    return [found[kind] for kind in kinds]


def exact_probabilities(
    policy: LLMPolicy, model: PreTrainedModel, position: Position, power: str, temperature: float
) -> dict[tuple[str, ...], float]:
    """The probability of every sheet, from plain forward passes over prompt and sheet under the mask."""
    tokens = policy.tokens
    slots = tokens.slots(position, power)
    prompt = tokens.prompt(position, power)
    constraint = tokens.constraint(slots)
    found = {}
    for sheet in legal_sheets(slots):
        ids = [
            token
            for limits, order in zip(constraint.slots, sheet, strict=True)
            for token in (*limits.note, *tokens._line(order))
        ]
        generation = teacher_forced_generation(constraint, [*ids, tokens.end_id])
        with torch.inference_mode():
            logits = model(torch.tensor([[*prompt, *ids]])).logits[0].double().numpy() / temperature
        total = 0.0
        for number, place in enumerate(np.flatnonzero(generation.sampled_mask)):
            first, end = generation.admissible_offsets[number : number + 2]
            scores = logits[len(prompt) + place - 1]
            among = scores[generation.admissible_ids[first:end]]
            total += scores[generation.completion_ids[place]] - among.max() - np.log(np.exp(among - among.max()).sum())
        found[sheet] = math.exp(total)
    return found
