"""The package ``entente``: what it offers, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import entente
from cluster.api.training import train
from tests.paths import ROOT

SLOW = ("torch", "transformers", "ray", "diplomacy", "plotly", "sklearn", "anthropic", "httpx2", "IPython")


def test_the_words_of_the_package_are_the_functions_of_the_command_line() -> None:
    assert {"load_config", "train", "evaluate", "play", "open_player", "load_run"} < set(entente.__all__)
    assert entente.train is train
    for name in entente.__all__:
        assert getattr(entente, name).__doc__, name
    assert (Path(entente.__file__).parent / "py.typed").is_file()


def test_the_import_and_a_configuration_need_no_heavy_library(tmp_path: Path) -> None:
    code = (
        "import sys, entente\n"
        "entente.load_config('smoke', {'learner.updates': 2})\n"
        f"print([name for name in {SLOW!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")
