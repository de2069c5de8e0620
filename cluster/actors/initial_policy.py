"""The policy that a run starts from: a small model with random weights, or the folder that the config names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grpo_core.models.pretrained import load_model, make_small_model
from grpo_core.settings import PolicySettings
from opponents.players.llm_policy import OrderTokens
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.notation import WORD_PATTERN, render, words
from services.inference.word_tokenizer import make_word_tokenizer


def make_policy(settings: PolicySettings, seed: int) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load the policy from the folder that the config names, or make the small one with random weights.

    Raises CheckpointError if the folder is not a usable model.
    """
    if settings.path is not None:
        return load_model(Path(settings.path), getattr(torch, settings.dtype))
    tokenizer = make_word_tokenizer(words(), WORD_PATTERN)
    model = make_small_model(
        settings,
        len(tokenizer),
        eos_id=int(tokenizer.eos_token_id),
        bos_id=int(tokenizer.bos_token_id),
        pad_id=int(tokenizer.pad_token_id),
        seed=seed,
    )
    return model, tokenizer


def probe_prompts(
    tokenizer: PreTrainedTokenizerBase, powers: Sequence[str] = ("ENGLAND", "TURKEY")
) -> list[tuple[int, ...]]:
    """Prompts that check an engine after a swap: the opening position as seen by some countries."""
    position = DiplomacyGame(1901).position
    return [OrderTokens(tokenizer).prompt(render(position, power)) for power in powers]
