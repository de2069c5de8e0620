"""Pieces of the installed TRL, run unchanged, without importing TRL, which takes ten seconds."""

from __future__ import annotations

import ast
import functools
import importlib.util
import math
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import torch


@functools.cache
def _tree(file: str) -> ast.Module:
    (root,) = importlib.util.find_spec("trl").submodule_search_locations
    return ast.parse((Path(root) / "trainer" / file).read_text())


def _function(file: str, name: str) -> ast.FunctionDef:
    (found,) = (node for node in ast.walk(_tree(file)) if isinstance(node, ast.FunctionDef) and node.name == name)
    return found


def _compiled(statement: ast.stmt):
    return compile(ast.Module([statement], []), "trl", "exec")


@functools.cache
def _scoring_block(first_words: str):
    """The ``if`` whose test or body's statements start so, in the method that scores completions."""
    (block,) = (
        node
        for node in ast.walk(_function("grpo_trainer.py", "_generate_and_score_completions"))
        if isinstance(node, ast.If)
        and any(ast.unparse(part).startswith(first_words) for part in (node.test, *node.body))
    )
    return _compiled(block)


def _run(code, names: dict) -> dict:
    names.update(torch=torch, math=math, nanmin=torch.min, nanmax=torch.max)
    exec(code, names)
    return names


@functools.cache
def _method(file: str, name: str):
    function = _function(file, name)
    function.decorator_list = []
    return _run(_compiled(function), {})[name]


def trl_loss(logps, entropies, mask, inputs, *, trainer: str = "grpo_trainer.py", **options):
    """``_compute_loss`` of a trainer that finds these log-probabilities (B, T), in evaluation mode on one process."""
    arguments = {
        "loss_type": "grpo",
        "importance_sampling_level": "token",
        "beta": 0.0,
        "epsilon_low": 0.2,
        "epsilon_high": 0.28,
        "delta": None,
        "use_bias_correction_kl": True,
        "off_policy_mask_threshold": None,
        "max_completion_length": mask.shape[1],
        "vllm_importance_sampling_correction": "importance_sampling_ratio" in inputs,
        **options,
    }
    trainer_stub = SimpleNamespace(
        **arguments,
        args=SimpleNamespace(**arguments),
        _get_per_token_logps_and_entropies=lambda *_, **__: (logps, entropies, None),
        get_off_policy_mask=_method("grpo_trainer.py", "get_off_policy_mask"),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        use_vllm="importance_sampling_ratio" in inputs,
        model=SimpleNamespace(training=False),
        accelerator=SimpleNamespace(num_processes=1, reduce=lambda x, **_: x, gather=lambda x: x),
        current_gradient_accumulation_steps=1,
        _entropy_bonus_enabled=False,
        _metrics={"eval": defaultdict(list)},
    )
    ids = torch.zeros_like(mask)
    batch = {
        "prompt_ids": ids[:, :1],
        "prompt_mask": torch.ones_like(ids[:, :1]),
        "completion_ids": ids,
        "completion_mask": mask,
        "num_items_in_batch": mask.sum(),
        **inputs,
    }
    loss = _method(trainer, "_compute_loss")(trainer_stub, None, batch)
    return loss, {name: values[-1] for name, values in trainer_stub._metrics["eval"].items()}


def trl_importance_ratio(old, sampling, mask, mode, clip_min, clip_max):
    """The weights that TRL gives tokens whose sampler and trainer disagree, (B, T) or (B, 1)."""
    trainer_stub = SimpleNamespace(
        vllm_importance_sampling_mode=mode,
        vllm_importance_sampling_clip_min=clip_min,
        vllm_importance_sampling_clip_max=clip_max,
        use_vllm=True,
        vllm_importance_sampling_correction=True,
    )
    names = {
        "self": trainer_stub,
        "old_per_token_logps": old,
        "sampling_per_token_logps": sampling,
        "completion_mask": mask,
        "tool_mask": None,
    }
    return _run(_scoring_block("per_token_logps_diff ="), names)["vllm_importance_sampling_ratio"]


def trl_advantages(rewards, num_generations, scale_rewards):
    """Advantages of rewards (B,), ``num_generations`` consecutive ones a group."""
    trainer_stub = SimpleNamespace(
        multi_objective_aggregation="sum_then_normalize", scale_rewards=scale_rewards, reward_weights=torch.ones(1)
    )
    names = {
        "self": trainer_stub,
        "rewards_per_func": rewards[:, None],
        "unscorable_mask": torch.zeros(len(rewards), dtype=torch.bool),
        "num_generations": num_generations,
        "device": rewards.device,
        "nanstd": _method("utils.py", "nanstd"),
    }
    return _run(_scoring_block("self.multi_objective_aggregation == 'sum"), names)["advantages"]
