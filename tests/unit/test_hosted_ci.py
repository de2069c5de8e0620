"""The workflow of hosted CI: valid, pinned, and on the Python versions that the project says it runs on."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.diagnostics.doctor import PYTHON
from tests.paths import ROOT

WORKFLOW = ROOT / ".github/workflows/ci.yml"


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    return yaml.safe_load(WORKFLOW.read_text())


def _check(file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_workflow_fits_the_schema_of_workflows(tmp_path: Path) -> None:
    checked = _check(WORKFLOW)
    assert checked.returncode == 0, checked.stdout
    broken = tmp_path / "broken.yml"
    broken.write_text(WORKFLOW.read_text().replace("runs-on:", "run-on:"))
    assert _check(broken).returncode == 1


def test_it_runs_what_a_change_must_pass_and_ends(workflow: dict[Any, Any]) -> None:
    job, others = workflow["jobs"]["checks"], workflow["jobs"]["adapters"]
    script = job["steps"][-1]
    assert script["run"] == ".ci/run"
    assert (ROOT / script["run"]).stat().st_mode & 0o111
    assert 60 < job["timeout-minutes"] <= 180
    assert others["steps"][-1]["run"] == "make adapters STRICT=1"
    assert others["timeout-minutes"] <= 60
    assert workflow["concurrency"]["cancel-in-progress"] is True
    assert workflow["permissions"] == {"contents": "read"}


def test_actions_are_pinned_by_version_and_packages_are_cached(workflow: dict[Any, Any]) -> None:
    job = workflow["jobs"]["checks"]
    used = [step["uses"] for each in workflow["jobs"].values() for step in each["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+\.\d+\.\d+", action) for action in used)
    (cache,) = (step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/cache@"))
    assert cache["path"].split() == ["~/.cache/uv", "~/.cache/pip"]
    assert "constraints.txt" in cache["key"]


def test_python_versions_are_the_same_everywhere(workflow: dict[Any, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    job = workflow["jobs"]["checks"]
    versions = job["strategy"]["matrix"]["python"]
    python = "Programming Language :: Python :: "
    assert [line.removeprefix(python) for line in project["classifiers"] if line.startswith(python)] == versions
    first, last = versions[0], versions[-1]
    assert project["requires-python"] == f">={first},<3.{int(last.partition('.')[2]) + 1}"
    accepted = re.search(r"\((3, \d+)\) <= sys.version_info\[:2\] <= \((3, \d+)\)", (ROOT / "Makefile").read_text())
    assert accepted is not None
    assert [bound.replace(", ", ".") for bound in accepted.groups()] == [first, last]
    assert [".".join(map(str, bound)) for bound in PYTHON] == [first, last]
