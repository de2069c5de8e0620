"""The policy that a run starts from: a small model with random weights, or the folder that the config names."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from cluster.runs.folder import has_sampling, sampling_of
from grpo_core.errors import CheckpointError
from grpo_core.files import read_json
from grpo_core.models.folder_files import some
from grpo_core.models.pretrained import add_tokens, load_model, load_tokenizer, make_small_model
from grpo_core.settings import PolicySettings
from opponents.champion.shipped import starting_folder
from opponents.players.llm_policy import TokenizedLanguage
from services.environments.environment import World
from services.environments.language import Language
from services.inference.word_tokenizer import make_word_tokenizer, with_words
from services.settings import InferenceSettings


def make_policy(
    settings: PolicySettings, seed: int, language: Language
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load the policy that the config names, or make the small one with random weights.

    A name is a folder, ``champion`` or a model of the Hub. A small model whose tokenizer lacks words of the world, such
    as those of letters, gets them. Raises CheckpointError if the folder is not a usable model.
    """
    if settings.path is not None:
        model, own = load_model(starting_folder(settings.path), getattr(torch, settings.dtype))
        tokenizer = _with_words_of(language, own, settings.path)
        add_tokens(model, max(tokenizer.get_vocab().values()) + 1, seed)
        return model, tokenizer
    tokenizer = make_tokenizer(settings, language)
    model = make_small_model(
        settings,
        len(tokenizer),
        eos_id=int(tokenizer.eos_token_id),
        bos_id=int(tokenizer.bos_token_id),
        pad_id=int(tokenizer.pad_token_id),
        seed=seed,
    )
    return model, tokenizer


def make_tokenizer(settings: PolicySettings, language: Language) -> PreTrainedTokenizerBase:
    """Make the tokenizer of the policy that the config names; raises as ``make_policy``."""
    if settings.path is not None:
        return _with_words_of(language, load_tokenizer(starting_folder(settings.path)), settings.path)
    words = (*language.words(), *(language.note_words() if settings.notes else ()))
    return make_word_tokenizer(words, language.word_pattern, language.joins)


def _with_words_of(language: Language, tokenizer: PreTrainedTokenizerBase, path: str) -> PreTrainedTokenizerBase:
    try:
        return with_words(tokenizer, language.words(), language.joins)
    except ValueError as error:
        raise CheckpointError(f"{path} has learned another world's words: {error}") from error


def check_policy(policy: PolicySettings, inference: InferenceSettings, language: Language) -> None:
    """Check that a run can start from ``policy.path``, fetching it from the Hub if need be; its weights are not loaded.

    Raises CheckpointError if there is no such model, its files cannot be used, it has learned with or without notes and
    the run wants the other, its tokenizer cannot write answers, or not within ``inference.max_completion_length``, a
    wanted chat template cannot be used, or ``policy.context_length`` is more than the model holds.
    """
    if policy.path is None:
        return
    folder = starting_folder(policy.path)
    if has_sampling(folder) and (notes := sampling_of(folder).policy.notes) != policy.notes:
        own, theirs = (str(each).lower() for each in (policy.notes, notes))
        raise CheckpointError(f"{policy.path} has learned with policy.notes = {theirs}, and this run has {own}; set it")
    tokens = TokenizedLanguage(language, make_tokenizer(policy, language), policy, inference)
    if tokens.language is not language:
        words = some(sorted({*language.optional_words()} - {*tokens.language.optional_words()}))
        raise CheckpointError(f"{policy.path}: its tokenizer lacks words that this run's games need ({words})")
    config = read_json(folder / "config.json")
    positions = config.get("text_config", config).get("max_position_embeddings")
    if policy.prompt == "chat" and isinstance(positions, int) and positions < policy.context_length:
        raise CheckpointError(
            f"{policy.path} holds {positions} tokens, and policy.context_length is {policy.context_length}; lower it"
        )
    answers = language.longest_answers() if inference.decoding != "free" else ()
    longest = max((sum(map(tokens.line_length, lines)) + 1 for lines in answers), default=0)
    if longest > inference.max_completion_length:
        raise CheckpointError(
            f"{policy.path}: {len(answers[0])} orders may take {longest} of its tokens, and "
            f"inference.max_completion_length is {inference.max_completion_length}; raise it"
        )


def probe_prompts(tokens: TokenizedLanguage, world: World, roles: Sequence[str]) -> list[tuple[int, ...]]:
    """Prompts that check an engine after a swap: what some of these roles see at the start of a game."""
    return [tokens.prompt(view, seat) for view, seat in world.probes(roles)]
