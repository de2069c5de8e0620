"""Train LoRA adapters in a model of your own: any folder with a Hugging Face causal LM and its tokenizer.

    python tests/examples/own_model_lora.py --out runs/own-model

This one is tiny and has random weights, so the example runs on any machine. With a real model, leave out ``make_model``
and give its folder as ``policy.path``. It takes about two minutes on two cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import entente


def make_model(folder: Path) -> None:
    """Write a Llama with random weights, and a byte-pair tokenizer learned from Diplomacy's own notation."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from services.environments.diplomacy.game import DiplomacyGame
    from services.environments.diplomacy.position import POWERS
    from services.environments.diplomacy.text.notation import render, words

    opening = DiplomacyGame(until_year=1901).position
    texts = [*(render(opening, power) for power in POWERS), *words()]  # a prompt for each power, and every word
    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pairs.decoder = decoders.ByteLevel()
    bytes_first = pre_tokenizers.ByteLevel.alphabet()  # any text can be written
    pairs.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=1000, special_tokens=["<end>"], initial_alphabet=bytes_first)
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=pairs, eos_token="<end>", pad_token="<end>")
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=2048,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the model, train adapters in it, and measure the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/own-model"), help="folder for the model and the run")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change a config key")
    options = parser.parse_args(arguments)

    make_model(options.out / "model")

    # The shipped config "smoke" is the smallest; these keys make it train adapters in our model.
    config = entente.load_config(
        "smoke",
        {
            "policy.path": options.out / "model",
            "policy.use_peft": True,  # the model's own weights stay as they are
            "policy.lora_r": 8,
            "policy.context_length": 2048,  # tokens of a prompt and its answer
            "learner.learning_rate": 1e-3,
        },
    )
    config = entente.load_config(config, options.set)
    run = entente.train(config, options.out / "run")

    # An adapter and the whole model with the adapter merged, both in Hugging Face layout.
    print("adapter:", run.checkpoints[max(run.checkpoints)] / "adapter")

    settings = config.evaluation
    rows = entente.evaluate(run, "greedy", games_per_country=settings.games_per_country, until_year=settings.until_year)
    for row in rows:
        print(f"{row['mean_centers']:.2f} centres against six {row['against']} ({row['games']} games)")


if __name__ == "__main__":  # a run starts processes, which import this file
    main()
