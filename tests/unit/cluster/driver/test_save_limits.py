"""How long the driver waits for the learner to write weights: a large policy on a slow disk must have time."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.driver import training
from cluster.runtime.memory import checkpoint_bytes, policy_size

# The shape of a model of eight billion parameters.
EIGHT_BILLION = {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": False,
    "vocab_size": 151936,
}


@pytest.fixture
def large(tmp_path: Path) -> Config:
    (tmp_path / "config.json").write_text(json.dumps(EIGHT_BILLION))
    return load_config("smoke", [f"policy.path={tmp_path}"])


class Run:
    """A run whose learner answers at once; the limits that it was given are kept."""

    def __init__(self, config: Config, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.limits: list[float] = []
        self.stages: list[str] = []
        call = SimpleNamespace(remote=lambda *_: None, options=lambda **_: call)
        learner = SimpleNamespace(checkpoint=call, snapshot=call, hurry=call)
        league: Any = SimpleNamespace(snapshot_due=lambda version: "why", change_members=lambda *_: [])
        display = SimpleNamespace(stage=self.stages.append, log=print)
        parts: Any = (config, SimpleNamespace(path=folder), learner, (), None, None, league)
        self.run = training.TrainingRun(*parts, SimpleNamespace(display=display), None, 3)  # type: ignore[arg-type]
        monkeypatch.setattr(training, "get_answer", lambda ref, limit_s, who: self.limits.append(limit_s))
        monkeypatch.setattr(training, "ignore_further_signals", lambda: None)


def test_a_snapshot_has_the_time_of_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Run(load_config("smoke", ["rollout.update_timeout_s=5000"]), tmp_path, monkeypatch)
    training.change_population(made.run)
    assert made.limits == [5000]


def test_the_last_checkpoint_has_time_by_its_size(
    large: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Run(load_config("smoke"), tmp_path, monkeypatch)
    training.save_interrupted(small.run)
    assert small.limits == [60 + small.run.take_timeout_s]
    made = Run(large, tmp_path, monkeypatch)
    training.save_interrupted(made.run)
    _, parameters = policy_size(large.policy)
    assert 8e9 < parameters < 8.5e9
    assert made.limits == [12 * parameters / 50e6 + made.run.take_timeout_s]
    assert made.stages == [f"stopping: saving a checkpoint (at most {made.limits[0]:.0f} s)"]


def test_a_checkpoint_of_adapters_has_the_merged_weights_and_no_moments_of_them(large: Config) -> None:
    adapted = large.model_copy(update={"policy": large.policy.model_copy(update={"use_peft": True, "lora_r": 8})})
    _, parameters = policy_size(large.policy)
    assert checkpoint_bytes(large) == 12 * parameters
    assert 4 * parameters < checkpoint_bytes(adapted) < 4.2 * parameters
