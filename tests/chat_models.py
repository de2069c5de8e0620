"""A small random Qwen3 with a byte-level BPE tokenizer and a chat template, as a published chat model has them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from grpo_core.models.pretrained import make_small_model, save_model
from grpo_core.settings import PolicySettings
from opponents.prompts.policy_prompt import messages_of
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.world import Diplomacy

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")
VOCABULARY = 640

# ChatML, with an empty thought where none is wanted, as Qwen3's own template writes it.
TEMPLATE = """{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking -%}
<think>

</think>

{% endif -%}
{%- endif -%}"""


@cache
def bpe_definition(special: tuple[str, ...] = SPECIAL) -> str:
    """A tokenizer learned from the prompts and orders of one game, as JSON."""
    game, bot = DiplomacyGame(1903), make_bot("greedy")
    texts = []
    while not game.is_done:
        position = game.position
        for power in position.to_move:
            texts += [message["content"] for message in messages_of(Diplomacy.language.sections(position, power))]
            orders = bot.actions(position, power, 1)
            texts.append("\n".join(orders))
            game.set_orders(power, orders)
        game.process()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return str(tokenizer.to_str())


def chat_tokenizer(template: str | None = TEMPLATE, special: tuple[str, ...] = SPECIAL) -> PreTrainedTokenizerFast:
    """A tokenizer of its own, whose answers end with ``<|im_end|>``."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(bpe_definition(special)),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = template
    return tokenizer


def chat_model(context_length: int = 4096, seed: int = 0) -> PreTrainedModel:
    """A random Qwen3 of the tokenizer's size."""
    tokenizer = chat_tokenizer()
    settings = PolicySettings(
        hidden_size=64, head_dim=32, layers=2, intermediate_size=96, context_length=context_length
    )
    assert isinstance(tokenizer.eos_token_id, int)
    return make_small_model(settings, len(tokenizer), eos_id=tokenizer.eos_token_id, bos_id=None, pad_id=0, seed=seed)


def save_chat_model(folder: Path, context_length: int = 4096, seed: int = 0) -> Path:
    """Write model and tokenizer as a Hugging Face folder."""
    save_model(chat_model(context_length, seed), chat_tokenizer(), folder)
    return folder
