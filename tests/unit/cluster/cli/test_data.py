"""``entente data``: files of GSM8K are checked, and rows and questions of made problems are written."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.cli.app import app
from cluster.cli.data import distinct_problems
from cluster.solving.questions import read_questions
from grpo_core.errors import EntenteError
from services.environments.word_problems.families.registry import FAMILIES, generate
from services.environments.word_problems.files.gsm8k import gsm8k_row
from services.environments.word_problems.files.rows import read_rows
from services.environments.word_problems.problem import split_of
from tests.unit.cluster.solving.policies import VARIANTS

ROWS = [
    {"question": "How many are 48 and 24?", "answer": "48 + 24 = <<48+24=72>>72\n#### 72"},
    {"question": "Half of 5?", "answer": "5 / 2 = 2.5\nso half is 2.5\n#### 2.5"},
    {"question": "Of 1,000 twice?", "answer": "#### 2,000"},
]


def entente(*arguments: str | Path | int) -> str:
    done = CliRunner().invoke(app, ["data", *map(str, arguments)])
    if done.exception is not None:
        raise done.exception
    return done.stdout


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gsm8k.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_a_file_of_gsm8k_is_summed_up_in_one_line(file: Path) -> None:
    for rows in ((), ("--rows", "3")):
        assert entente("gsm8k", file, *rows) == (
            f"{file}: 3 rows, every answer read; longest question 23 characters, 1.0 lines a solution, 33.3% of "
            "answers with decimals, 0 negative\n"
        )


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("test", "it has 3 rows, and 1,319 are expected"),
        ("train", "it has 3 rows, and 7,473 are expected"),
        ("4", "it has 3 rows, and 4 are expected"),
        *((wrong, "give a number from 1, train or test") for wrong in ("0", "-1", "all", "", "٣", "9" * 30)),
    ],
)
def test_another_number_of_rows_is_refused(file: Path, rows: str, text: str) -> None:
    with pytest.raises(EntenteError, match=text):
        entente("gsm8k", file, f"--rows={rows}")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('{"question": "What?", "answer": "72"}', "line 4: its answer ends in '72'"),
        ('{"question": "What?"}', "line 4: it has no text under 'answer'"),
        ("no JSON", "line 4: "),
        (json.dumps(ROWS[0]), "line 4: its question is that of line 1"),
    ],
)
def test_a_bad_row_is_one_clear_line(file: Path, line: str, text: str) -> None:
    file.write_text(file.read_text() + line)
    with pytest.raises(EntenteError, match=text) as refused:
        entente("gsm8k", file)
    assert len(str(refused.value).splitlines()) == 1
    assert refused.value.exit_code == 2


def test_rows_have_each_problem_under_each_variant(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    said = entente("rows", "--out", out, "--problems", 30, "--seed", 3)
    assert said == f"120 rows written to {out}: 30 problems (train) under 4 variants\n"
    rows = read_rows(out)
    assert [row.role for row in rows] == [*VARIANTS] * 30
    assert len({row.prompt for row in rows}) == 120
    assert {row.answer for row in rows[:4]} == {rows[0].answer}
    before = out.read_bytes()
    entente("rows", "--out", out, "--problems", 30, "--seed", 3)
    assert out.read_bytes() == before
    entente("rows", "--out", out, "--problems", 30, "--seed", 4)
    assert out.read_bytes() != before


def test_families_difficulties_variants_and_the_split_can_be_chosen(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    said = entente(
        "rows", "--out", out, "--problems", 8, "--families", "ages,buying", "--difficulties", "3", "--split",
        "held_out", "--variant", "be_concise",
    )  # fmt: skip
    assert said.endswith("8 problems (held_out) under 1 variant\n")
    found = distinct_problems("held_out", ["ages", "buying"], [3], 8, 0)
    assert [problem.family for problem in found] == ["ages", "buying"] * 4
    assert {problem.difficulty for problem in found} == {3}
    assert {split_of(problem.question) for problem in found} == {"held_out"}
    assert all(problem.question.text in row.prompt for problem, row in zip(found, read_rows(out), strict=True))


def test_the_two_sides_share_no_question() -> None:
    sides = [distinct_problems(side, list(FAMILIES), [1, 2], 60, 0) for side in ("train", "held_out")]
    assert not {each.question.text for each in sides[0]} & {each.question.text for each in sides[1]}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--families", "agess"], "did you mean 'ages'"),
        (["--difficulties", "6"], "from 1 to 5"),
        (["--difficulties", "hard"], "give whole numbers from 1 to 5"),
        (["--difficulties", ","], "names none"),
        (["--variant", "loud"], "there is no variant 'loud'"),
        (["--out", "none/rows.jsonl"], "there is no folder none"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_line(
    arguments: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EntenteError, match=text):
        entente("rows", "--out", "rows.jsonl", "--problems", "2", *arguments)
    assert not (tmp_path / "rows.jsonl").exists()


def test_questions_can_be_solved_and_checked(tmp_path: Path) -> None:
    out = tmp_path / "questions.jsonl"
    said = entente("questions", "--out", out, "--problems", 33, "--difficulties", "2,3", "--seed", 5)
    assert said == f"33 questions (held_out) written to {out}\n"
    asked = read_questions(out)
    assert len({each.question.text for each in asked}) == 33
    assert {split_of(each.question) for each in asked} == {"held_out"}
    made = distinct_problems("held_out", list(FAMILIES), [2, 3], 33, 5)
    assert [each.problem.answer for each in asked if each.problem] == [problem.answer for problem in made]
    assert all(each.has_solution for each in asked)


def test_an_answer_that_no_decimal_can_write_stands_alone() -> None:
    third = replace(generate("ages", 1, 0), answer=Fraction(1, 3))
    assert gsm8k_row(third)["answer"] == "1/3"
    assert gsm8k_row(replace(third, answer=Fraction(5, 2)))["answer"].endswith("\n#### 2.5")
