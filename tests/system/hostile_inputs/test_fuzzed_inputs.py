"""Hostile input of every kind is answered by one short line, or it is usable."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.contract import Kind, first_cases, judge, kinds

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[3]
SEED = 1  # the soak test takes others


@pytest.fixture(autouse=True)
def _back_to_this_folder() -> Iterator[None]:
    here = Path.cwd()  # cases may change it
    yield
    os.chdir(here)


def test_another_process_makes_the_same_cases() -> None:
    """A finding names its case by number, and another process makes it again."""
    script = (
        "from tests.fuzz.contract import first_cases, kinds\n"
        "print([(kind.name, [case.name for case in first_cases(kind, 25, 3)]) for kind in kinds()])"
    )
    said = []
    for seed in ("1", "2"):  # of the order of sets
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=env, capture_output=True, timeout=600)
        assert done.returncode == 0, done.stderr.decode()
        said.append(done.stdout)
    assert said[0] == said[1]


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind.quick], ids=lambda kind: kind.name)
def test_hostile_input_is_answered_in_one_line_or_used(kind: Kind, tmp_path: Path) -> None:
    findings = []
    (tmp_path / "shared").mkdir()
    with kind.prepare(tmp_path / "shared") as shared:
        for number, case in enumerate(first_cases(kind, kind.quick, SEED)):
            folder = tmp_path / str(number)
            folder.mkdir()
            outcome = judge(kind, case, folder, shared)
            if outcome.is_finding:
                findings.append(f"{number}: {case.name}: {outcome.verdict}\n{outcome.detail}")
    assert not findings, "\n\n".join(findings)
