"""The wheel: built, installed in an environment of its own, imported and used as by someone without the repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.system.support.training_process import PATIENCE_S

pytestmark = [pytest.mark.system, pytest.mark.timeout(3600)]

PACKAGES = ("cluster", "opponents", "services", "grpo_core")
PLUGINS = {"entente_diplomacy", "entente_word_problems"}  # verifiers finds environments at the top alone
UV = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
FOUND = os.environ.get("UV_FIND_LINKS") or os.environ.get("PIP_FIND_LINKS")  # where a CPU build of torch lies


def call(*command: str | Path, folder: Path) -> str:
    """Run a command away from the repository; return what it printed."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    if FOUND:
        environment["UV_FIND_LINKS"] = FOUND
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE_S, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the sources: setuptools writes into them."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "source" / name)
    call(
        sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, folder / "source", folder=folder
    )
    [made] = folder.glob("*.whl")
    return made


def test_the_wheel_holds_each_module_once_and_every_file_that_is_no_module(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in held} == {"entente", *PLUGINS, *PACKAGES}
    assert {name for name in held if name.startswith("entente/")} == {"entente/__init__.py", "entente/py.typed"}
    moved = ("cluster/api/entente/", *(f"cluster/adapters/verifiers/plugins/{name}/" for name in PLUGINS))
    assert not any(name.startswith(moved) for name in held)
    needed = {str(path.relative_to(ROOT)) for path in _sources()}
    needed = {name for name in needed if not name.startswith(moved)}
    assert needed <= held
    champion = ROOT / "opponents" / "champion"
    shipped = (champion / "manifest.json", *(champion / "weights").iterdir())
    assert {str(path.relative_to(ROOT)) for path in shipped} <= held


def _sources() -> Sequence[Path]:
    kinds = (".py", ".toml", ".html", ".js", ".css", ".typed")
    found = (path for name in PACKAGES for path in (ROOT / name).rglob("*"))
    return [path for path in found if path.suffix in kinds and "__pycache__" not in path.parts]


@pytest.mark.skipif(UV is None, reason="uv, which make setup installs, is not there")
def test_an_installed_wheel_is_imported_and_trains(wheel: Path, tmp_path: Path) -> None:
    assert UV is not None
    python = tmp_path / "venv" / "bin" / "python"
    call(UV, "venv", "--python", sys.executable, tmp_path / "venv", folder=tmp_path)
    cpu = () if FOUND else ("--torch-backend=cpu",)
    pins = ("--constraint", ROOT / "constraints.txt")
    call(UV, "pip", "install", "--python", python, *pins, *cpu, wheel, folder=tmp_path)

    inside = "import entente; print(entente.__file__); print(entente.load_config('smoke').run.name)"
    file, name = call(python, "-c", inside, folder=tmp_path).splitlines()
    assert Path(file).is_relative_to(tmp_path / "venv")
    assert name == "smoke"

    short = ("learner.updates=1", "game.until_year=1901", "evaluation.until_year=1901")
    arguments = [part for setting in short for part in ("--set", setting)]
    printed = call(tmp_path / "venv" / "bin" / "entente", "train", "smoke", *arguments, folder=tmp_path)
    assert "done: runs/smoke/summary.json" in printed
    assert json.loads((tmp_path / "runs" / "smoke" / "summary.json").read_text())["updates"] == 1
    assert (tmp_path / "runs" / "smoke" / "report.html").is_file()
