"""The GPU bench runs with few packages installed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.system


def test_the_gpu_bench_does_not_need_ray_or_other_extras() -> None:
    blocked = ("ray", "trl", "redis", "diplomacy", "peft", "sklearn", "scipy", "rich", "typer", "msgspec", "datasets")
    start = "import cluster.bench.learner.gpu as gpu; gpu.main([])"
    block = f"import sys; sys.modules.update(dict.fromkeys({blocked!r})); {start}"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "no CUDA GPU: skipped\n"
