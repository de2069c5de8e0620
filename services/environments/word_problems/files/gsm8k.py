"""Files in the form of GSM8K (Cobbe et al. 2021, arXiv 2110.14168): one JSON object a line, question and answer.

The answer's text ends in ``#### n``. Notes for a calculator, such as ``<<48/2=24>>``, are left out of the solution.
The file has no column of difficulty, so ``difficulty`` is ``UNKNOWN_DIFFICULTY``.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

from grpo_core.errors import one_line
from grpo_core.files import parse_json
from services.environments.word_problems.answers import final_answer
from services.environments.word_problems.files.lines import read_lines
from services.environments.word_problems.problem import (
    UNKNOWN_DIFFICULTY,
    ProblemFileError,
    Question,
    WordProblem,
    number_text,
)

FAMILY = "gsm8k"
TRAIN_ROWS, TEST_ROWS = 7473, 1319

_LONGEST_SOLUTION = 20_000  # characters; the longest of the training rows has 1,228
_NOTE = re.compile(r"<<[^<>\n]*+>>")
_LAST_LINE = re.compile(r"#### ?-?[0-9][0-9,]*+(?:\.[0-9]++)?")


def read_gsm8k(path: Path, rows: int | None = None) -> tuple[WordProblem, ...]:
    """Return all problems of a file, in its order; ``seed`` is the row's number from 0.

    ``rows`` is the number of rows that the file must have (``TRAIN_ROWS``, ``TEST_ROWS``); None: any but 0. A file has
    at most 64 MiB, a line at most 64 KiB.

    Raises:
        ProblemFileError: the file cannot be read, has another number of rows, or a row is damaged or was there before;
            the message names the file, the line and the reason.
    """
    problems: list[WordProblem] = []
    seen: dict[str, int] = {}
    for number, line in read_lines(path):
        try:
            problem = _problem(line, len(problems))
            if earlier := seen.get(problem.question.text):
                raise ValueError(f"its question is that of line {earlier}")
        except ValueError as error:
            raise ProblemFileError(f"{path}, line {number}: {one_line(error, 200)}") from error
        seen[problem.question.text] = number
        problems.append(problem)
    if not problems or (rows is not None and len(problems) != rows):
        wanted = f", and {rows:,} are expected" if rows is not None else ""
        raise ProblemFileError(f"{path}: it has {len(problems):,} rows{wanted}")
    return tuple(problems)


def _problem(line: bytes, row: int) -> WordProblem:
    """Return the problem of a line. Raises ValueError with the reason."""
    document = parse_json(line)
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    texts = []
    for name in ("question", "answer"):
        text = document.get(name)
        if not isinstance(text, str):
            raise ValueError(f"it has no text under {name!r}")
        texts.append(text)
    question, answer = texts
    lines, number = worked_answer(answer)
    return WordProblem(Question(question), lines, number, FAMILY, UNKNOWN_DIFFICULTY, row)


def gsm8k_row(problem: WordProblem) -> dict[str, str]:
    """Return the row of a problem. An answer that no decimal can write, such as 1/3, stands alone, without ``####``."""
    number = number_text(problem.answer)
    worked = "\n".join([*problem.solution, f"#### {number}"])
    return {"question": problem.question.text, "answer": number if "/" in number else worked}


def worked_answer(answer: str) -> tuple[tuple[str, ...], Fraction]:
    """Return the lines of the solution and the number of an answer's text that ends in ``#### n``.

    Raises ValueError where it is too long, or ends in anything else.
    """
    if len(answer) > _LONGEST_SOLUTION:
        raise ValueError(f"its answer has {len(answer)} characters, and at most {_LONGEST_SOLUTION} are read")
    *solution, last = answer.rstrip().split("\n")
    number: Fraction | None = final_answer(last) if _LAST_LINE.fullmatch(last) else None
    if number is None:
        raise ValueError(f"its answer ends in {one_line(repr(last), 60)}, not in '#### ' and a number")
    return tuple(kept for kept in (_NOTE.sub("", part).strip() for part in solution) if kept), number
