"""How the fuzzer judges: what it finds, and what it does not."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo_core.errors import EntenteError
from tests.fuzz.contract import Case, Kind, first_cases, judge, kinds


def test_equal_seeds_give_equal_cases() -> None:
    for kind in kinds():
        once, again = (first_cases(kind, 5, seed=3) for _ in range(2))
        assert [case.name for case in once] == [case.name for case in again]
        assert len({case.name for case in first_cases(kind, 20, seed=4)}) > 5


@pytest.mark.parametrize(
    ("message", "verdict"),
    [("short", "refused"), ("x" * 501, "refused"), ("a\nb", "refused"), ("", "refused")],
)
def test_every_error_for_users_is_one_line_whatever_it_quotes(message: str, verdict: str, tmp_path: Path) -> None:
    def run(case: Case, folder: Path, shared: object) -> None:
        raise EntenteError(message)

    outcome = judge(_kind(run), Case("a", None), tmp_path, None)
    assert outcome.verdict == verdict
    assert outcome.longest <= 500


def test_tracebacks_long_lines_and_control_characters_are_findings(tmp_path: Path) -> None:
    def fails(case: Case, folder: Path, shared: object) -> None:
        raise ValueError("a bug")

    def prints(case: Case, folder: Path, shared: object) -> None:
        print(case.input)

    def writes(case: Case, folder: Path, shared: object) -> None:
        os.write(2, b"\x1b[31m")

    assert judge(_kind(fails), Case("a", None), tmp_path, None).verdict == "traceback"
    assert judge(_kind(writes), Case("a", None), tmp_path, None).verdict == "line"
    verdicts = [
        judge(_kind(prints), Case("a", text), tmp_path, None).verdict for text in ("x" * 501, "\x1b[31m", "x\ny")
    ]
    assert verdicts == ["line", "line", "fine"]


def test_a_case_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def waits(case: Case, folder: Path, shared: object) -> None:
        os.mkfifo(folder / "fifo")
        (folder / "fifo").read_bytes()

    monkeypatch.setattr("tests.fuzz.contract.HANG_S", 0.2)
    assert judge(_kind(waits), Case("a", None), tmp_path, None).verdict == "hang"


def _kind(run: object) -> Kind:
    def cases(rng: random.Random) -> Iterator[Case]:
        yield Case("a", None)

    return Kind("a kind", cases, run)  # type: ignore[arg-type]
