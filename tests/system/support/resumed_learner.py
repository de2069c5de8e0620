"""A learner that is killed and resumed, each time in a new process with another memory layout.

As a program (``python -m tests.system.support.resumed_learner RUN_DIR UPDATES SEED``) it makes updates on fixed
episodes from the newest checkpoint, saves a checkpoint after each and prints the version. It can be killed at any time.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch

import grpo_core
from grpo_core.checkpoints.folders import checkpoint_versions
from grpo_core.checkpoints.store import load_checkpoint, save_checkpoint
from grpo_core.learner import Learner
from grpo_core.models.named_tensors import named_tensors
from grpo_core.models.pretrained import load_model, make_small_model, save_model
from grpo_core.settings import GroupingSettings, LearnerSettings, PolicySettings
from grpo_core.types import Batch
from services.inference.word_tokenizer import make_word_tokenizer
from tests.unit.grpo_core.support.cases import VOCABULARY, ragged_episodes

WITHOUT_AVX512 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
AFTER = 10  # updates that are compared after each kill
POLICY = PolicySettings(hidden_size=96, layers=2, head_dim=32, intermediate_size=80, context_length=128)
LEARNER = LearnerSettings(learning_rate=0.01, lr_warmup_updates=3, minibatches=2, tokens_per_microbatch=256, beta=0.0)
GROUPING = GroupingSettings(min_group_size=2)
TIME_LIMIT_S = 900.0


def digest(learner: Learner) -> str:
    """A digest of all weights, bit by bit."""
    state = hashlib.sha256()
    for name, tensor in sorted(named_tensors(learner.model).items()):
        state.update(name.encode() + tensor.detach().numpy().tobytes())
    return state.hexdigest()


def learner_at(run_dir: Path) -> Learner:
    """A new learner, or one resumed from the newest checkpoint."""
    if versions := checkpoint_versions(run_dir):
        checkpoint = load_checkpoint(run_dir / "checkpoints" / str(versions[-1]))
        learner = Learner(load_model(checkpoint.folder)[0], LEARNER, GROUPING, seed=3)
        learner.load_state(checkpoint.state)
        return learner
    model = make_small_model(POLICY, VOCABULARY, eos_id=1, bos_id=2, pad_id=0, seed=0)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(20)
    return Learner(model, LEARNER, GROUPING, seed=3)


def update_until(run_dir: Path, until: int, seed: int) -> None:
    """Update to a version, each update on its own fixed episodes; print each version and digest once it is durable."""
    rng = random.Random(seed)
    ballast = [torch.empty(rng.randrange(1, 1 << 16)) for _ in range(rng.randrange(200))]
    del ballast[::2]  # holes, so that later tensors have other addresses than in another process
    tokenizer = make_word_tokenizer([f"w{number}" for number in range(VOCABULARY - 4)], r"\S+")
    learner = learner_at(run_dir)
    while learner.version < until:
        learner.step(Batch(ragged_episodes(learner.version), learner.version))
        save_checkpoint(run_dir, learner, lambda folder: save_model(learner.model, tokenizer, folder), {})
        print(learner.version, digest(learner), flush=True)


def started(run_dir: Path, until: int, seed: int) -> subprocess.Popen[str]:
    """``update_until`` in a new process."""
    command = [sys.executable, "-m", "tests.system.support.resumed_learner", str(run_dir), str(until), str(seed)]
    root = str(Path(grpo_core.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=root)


def digests_of(process: subprocess.Popen[str]) -> dict[int, str]:
    """The digests that a process prints until it ends, by version."""
    output, _ = process.communicate(timeout=TIME_LIMIT_S)
    assert process.returncode == 0
    return {int(version): found for version, found in map(str.split, output.splitlines())}


def killed_at(run_dir: Path, version: int, delay_s: float, seed: int) -> dict[int, str]:
    """Run until a version is printed, kill the process shortly afterwards, and return the printed digests."""
    process = started(run_dir, version + 1000, seed)
    printed: dict[int, str] = {}
    try:
        assert process.stdout is not None
        while version not in printed:
            line = process.stdout.readline()
            assert line, f"ended before version {version}"
            number, found = line.split()
            printed[int(number)] = found
        time.sleep(delay_s)
    finally:
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate(timeout=TIME_LIMIT_S)
    printed.update({int(number): found for number, found in (line.split() for line in rest.splitlines())})
    return printed


def check_kills(run_dir: Path, kills: int, seed: int) -> None:
    """Kill and resume ``kills`` times at random: ten updates after each kill equal those of an uninterrupted run."""
    rng = random.Random(seed)
    printed: dict[int, str] = {}
    for number in range(kills):
        version = (checkpoint_versions(run_dir / "killed") or [0])[-1] + AFTER + rng.randrange(4)
        printed |= killed_at(run_dir / "killed", version, rng.uniform(0, 0.1), seed + number)
    until = checkpoint_versions(run_dir / "killed")[-1] + AFTER
    printed |= digests_of(started(run_dir / "killed", until, seed + kills))
    straight = digests_of(started(run_dir / "straight", until, seed + kills + 1))
    assert len(printed) >= kills * AFTER
    assert printed == {version: straight[version] for version in printed}


if __name__ == "__main__":
    update_until(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
