"""Tiny policies with random weights, as runs in the world of word problems have them."""

from __future__ import annotations

from pathlib import Path

import torch

from cluster.actors.initial_policy import make_policy
from cluster.configs.loader import dump_config, load_config
from cluster.configs.schema import Config
from grpo_core.models.pretrained import save_model
from grpo_core.models.role_adapters import add_role_adapters

VARIANTS = ("step_by_step", "short_arithmetic", "final_answer", "chain_of_thought")
OVERRIDES = (
    "policy.hidden_size=32", "policy.layers=2", "policy.intermediate_size=64", "inference.max_completion_length=24",
    "evaluation.final_against=[]",
)  # fmt: skip
QUESTION = "Sam has 15 pens and buys 9 more. How many pens does Sam have?"


def tiny_config(*overrides: str) -> Config:
    return load_config("word_problems", [*OVERRIDES, *overrides])


def write_run(folder: Path, *overrides: str, specialists: bool = False) -> Path:
    """A run's folder whose weights, as after imitation, lie in ``imitated``; returns the latter."""
    config = tiny_config(*overrides)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(dump_config(config))
    (folder / "run_id").write_text("tiny-0f\n")
    model, tokenizer = make_policy(config.policy, 5, config.world.language)
    with torch.no_grad():  # logits far from uniform, so that the variants differ
        model.lm_head.weight.mul_(100)
    if specialists:
        model = add_role_adapters(model, config.policy, 1, VARIANTS)
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(2)
            for name, parameter in model.named_parameters():
                if ".lora_B" in name:
                    parameter.normal_(std=0.3)
    save_model(model, tokenizer, folder / "imitated")
    return folder / "imitated"
