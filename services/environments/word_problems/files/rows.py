"""Rows of prompt, answer, role and task as JSONL: what other trainers read, and what they wrote.

One line is ``{"prompt": "...", "answer": "72", "role": "final_answer", "task": "word_problems"}``. ``prompt`` and
``answer`` are texts as they are; ``role`` groups the rows (an instruction variant, a country); ``task`` is the world.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec

from grpo_core.checkpoints.atomic_write import write_atomically
from grpo_core.errors import one_line
from grpo_core.files import parse_json
from services.environments.word_problems.files.lines import read_lines
from services.environments.word_problems.instructions import prompt_text
from services.environments.word_problems.problem import ProblemFileError, WordProblem, number_text

TASK = "word_problems"

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row; unknown keys are refused."""

    prompt: Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]
    answer: Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]
    role: _Name
    task: _Name


def row_of(problem: WordProblem, role: str) -> Row:
    """Return the row of a problem under an instruction variant; its answer is the number alone."""
    return Row(prompt_text(role, [problem.question]), number_text(problem.answer), role, TASK)


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows to a new file or in place of one. Raises ``StorageError`` if it cannot be written."""
    write_atomically(path, b"".join(msgspec.json.encode(row) + b"\n" for row in rows))


def read_rows(path: Path) -> tuple[Row, ...]:
    """Return all rows of a file of at most 64 MiB.

    Raises:
        ProblemFileError: it cannot be read, or a line is no row; the message names the file, the line and the reason.
    """
    rows = []
    for number, line in read_lines(path):
        try:
            rows.append(msgspec.convert(parse_json(line), Row))
        except ValueError as error:  # msgspec's errors are ValueErrors
            raise ProblemFileError(f"{path}, line {number}: not a row: {one_line(error, 200)}") from error
    return tuple(rows)
