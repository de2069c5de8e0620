"""MKL is configured before its first product, in processes that import in any order."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from grpo_core.reproducible import VARIABLE, mkl_mode

pytestmark = pytest.mark.system

PRODUCT = "torch.ones(64, 64) @ torch.ones(64, 64)"


def output_of(program: str, **variables: str) -> str:
    """The output of a new process, warnings included; it starts without the variable."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.skipif(mkl_mode() is None, reason="this torch is built without MKL")
def test_mkl_is_configured_at_import_or_a_warning_says_it_is_too_late() -> None:
    show = "; from grpo_core.reproducible import mkl_mode; print(hex(mkl_mode()))"
    for first in ("import grpo_core", "import torch, grpo_core"):
        said = output_of(first + show)
        assert said.strip() == "0x10002", "MKL_CBWR_STRICT | MKL_CBWR_AUTO"
    kept = output_of("import grpo_core" + show, **{VARIABLE: "COMPATIBLE"})
    assert kept.strip() == "0x3", "MKL_CBWR_COMPATIBLE, the user's own"
    late = output_of(f"import torch; {PRODUCT}; import grpo_core")
    assert "RuntimeWarning: MKL was used before grpo_core was imported" in late
