"""Helpers: run folders like those of training, with a tiny policy, its checkpoints and a population."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import nn

from cluster.configs.loader import dump_config
from cluster.configs.schema import Config
from grpo_core.models.lora import add_adapters
from grpo_core.models.pretrained import make_small_model, policy_payload, save_model
from grpo_core.settings import PolicySettings
from opponents.population.population import Population
from services.inference.word_tokenizer import make_word_tokenizer

WORDS = ("north", "south")
TINY = {"hidden_size": 32, "layers": 1, "intermediate_size": 32}


def tiny_model(seed: int, *, lora: bool = False, **settings: object) -> nn.Module:
    """With an adapter that has been trained a little, if it has one."""
    chosen = PolicySettings.model_validate({**TINY, "use_peft": lora, "lora_r": 1, **settings})
    model: nn.Module = make_small_model(chosen, 4 + len(WORDS), eos_id=2, bos_id=1, pad_id=0, seed=seed)
    return add_adapters(model, chosen, seed) if lora else model  # type: ignore[arg-type]


def train_a_little(model: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in model.parameters():
            if value.requires_grad:
                value.add_(0.1 * torch.randn(value.shape, generator=generator))


def write_checkpoint(run: Path, model: nn.Module, version: int, words: tuple[str, ...] = WORDS) -> Path:
    folder = run / "checkpoints" / str(version)
    save_model(model, make_word_tokenizer(words, r"\w+"), folder)
    save_file({"step": np.zeros(1, np.float32)}, folder / "optimizer.safetensors")
    state = {"schema": 1, "learner": {}, "extra": {"config_digest": f"digest-{version}"}}
    (folder / "trainer_state.json").write_text(json.dumps(state))
    files = {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in folder.rglob("*")
        if path.is_file()
    }
    (folder / "manifest.json").write_text(json.dumps({"schema": 1, "version": version, "files": files}))
    return folder


def make_run(path: Path, seed: int, *, lora: bool = False) -> Path:
    """Checkpoints 0 and 4, a snapshot of version 2, two bots; training has reached update 5."""
    path.mkdir()
    (path / "run_id").write_text(f"{path.name}-0f\n")
    (path / "format").write_text("2\n")
    (path / "config.toml").write_text(dump_config(Config()))
    model = tiny_model(seed, lora=lora)
    population = Population(path / "population.json")
    population.add_bot("random")
    population.add_bot("greedy")
    for version in (0, 2, 4):
        if version:
            train_a_little(model, version)
        if version == 2:
            (path / "population").mkdir()
            snapshot = path / "population" / "v2.safetensors"
            snapshot.write_bytes(policy_payload(model))
            population.add_snapshot(snapshot, version=2, config_digest="digest-2")
        else:
            write_checkpoint(path, model, version)
    population.advance_to(5)
    population.save()
    return path
