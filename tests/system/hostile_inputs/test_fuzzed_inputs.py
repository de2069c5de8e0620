"""Hostile input of every kind is answered by one short line, or it is usable."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.contract import Kind, first_cases, judge, kinds

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

SEED = 1  # the soak test takes others


@pytest.fixture(autouse=True)
def _back_to_this_folder() -> Iterator[None]:
    here = Path.cwd()  # cases may change it
    yield
    os.chdir(here)


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
