"""A writer of checkpoints is killed without warning, again and again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from grpo_core.checkpoints.folders import checkpoint_versions, prune_checkpoints
from grpo_core.checkpoints.store import load_checkpoint

pytestmark = pytest.mark.system

WRITER = """
import sys
from pathlib import Path
from grpo_core.checkpoints.store import save_checkpoint
from grpo_core.checkpoints.folders import checkpoint_versions, prune_checkpoints
from grpo_core.learner import Learner
from grpo_core.settings import GroupingSettings, LearnerSettings
from safetensors.torch import save_file
from torch import nn
run = Path(sys.argv[1])
model = nn.Linear(256, 256)
learner = Learner(model, LearnerSettings(), GroupingSettings(), seed=0)
learner.version = max(checkpoint_versions(run), default=-1)
while True:
    learner.version += 1
    def save_model(folder):
        save_file(model.state_dict(), folder / "model.safetensors")
    save_checkpoint(run, learner, save_model, {"number": learner.version})
    prune_checkpoints(run, keep=3)
    print(learner.version, flush=True)
"""


def test_a_killed_writer_leaves_only_complete_checkpoints(tmp_path):
    announced = -1
    for delay_s in (0.0, 0.013, 0.029):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            line = writer.stdout.readline()
            assert line, "the writer ended before its first checkpoint"
            time.sleep(delay_s)
        finally:
            writer.send_signal(signal.SIGKILL)
            rest = writer.communicate(timeout=600)[0]
        announced = int([line, *rest.splitlines()][-1])
        versions = checkpoint_versions(tmp_path)
        assert versions[-1] >= announced
        for version in versions:
            checkpoint = load_checkpoint(tmp_path / "checkpoints" / str(version))
            assert checkpoint.extra == {"number": version}
    prune_checkpoints(tmp_path, keep=3)
    names = [path.name for path in (tmp_path / "checkpoints").iterdir()]
    assert all(name.isdigit() for name in names)
    assert announced >= 2
