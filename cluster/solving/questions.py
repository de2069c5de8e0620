"""What is asked: a question from the command line, or a file of questions, with the true answer where it is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.errors import RunError
from grpo_core.errors import one_line
from grpo_core.files import parse_json
from services.environments.word_problems.answers import final_answer
from services.environments.word_problems.files.gsm8k import worked_answer
from services.environments.word_problems.files.lines import read_lines
from services.environments.word_problems.problem import (
    RESPONSE,
    UNKNOWN_DIFFICULTY,
    ProblemFileError,
    Question,
    WordProblem,
    completion_text,
    number_text,
)

FAMILY = "asked"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the problem with its true answer where that is known; it may have a worked solution."""

    question: Question
    problem: WordProblem | None = None

    @property
    def has_solution(self) -> bool:
        """Whether a worked solution is known."""
        return self.problem is not None and bool(self.problem.solution)

    @property
    def reference(self) -> str | None:
        """The completion that a right policy could write: solution and answer, or the answer alone; None: unknown."""
        if self.problem is None:
            return None
        if self.problem.solution:
            return completion_text(self.problem)
        return f"<{RESPONSE}>{number_text(self.problem.answer)}</{RESPONSE}>"


def asked(text: str, answer: str | None = None) -> Asked:
    """Take a question and, if known, its answer: a number, or a text as in GSM8K that ends in ``#### n``.

    Raises RunError for a question that no prompt can hold (empty, too long, with a tag) or an answer without a number.
    """
    try:
        return _asked(text, answer)
    except ValueError as error:
        raise RunError(one_line(error, 300)) from error


def read_questions(path: Path) -> tuple[Asked, ...]:
    """Read a file of questions, one a line: a plain text, or a JSON object ``{"question": ..., "answer"?: ...}``.

    So a file of GSM8K is one. A line that begins with ``{`` is an object; its other keys are ignored.

    Raises ProblemFileError, with the file and the line, for a line that is no question, or where there is none.
    """
    questions = []
    for number, line in read_lines(path):
        try:
            questions.append(_read(line))
        except ValueError as error:
            raise ProblemFileError(f"{path}, line {number}: {one_line(error, 200)}") from error
    if not questions:
        raise ProblemFileError(f"{path}: it holds no question")
    return tuple(questions)


def _read(line: bytes) -> Asked:
    if not line.lstrip().startswith(b"{"):
        return _asked(line.decode("utf-8").strip(), None)
    document: dict[str, Any] = parse_json(line)
    question, answer = document.get("question"), document.get("answer")
    if not isinstance(question, str):
        raise ValueError("it has no text under 'question'")
    if isinstance(answer, int | float) and not isinstance(answer, bool):
        answer = str(answer)
    if not isinstance(answer, str | None):
        raise ValueError("under 'answer' it has neither a number nor a text")
    return _asked(question, answer)


def _asked(text: str, answer: str | None) -> Asked:
    question = Question(text)
    if answer is None:
        return Asked(question)
    if "####" in answer:
        solution, number = worked_answer(answer)
        return Asked(question, WordProblem(question, solution, number, FAMILY, UNKNOWN_DIFFICULTY, 0))
    alone = final_answer(answer)
    if alone is None:
        raise ValueError(f"the answer {one_line(repr(answer), 60)} is neither a number nor ends in '#### ' and one")
    return Asked(question, WordProblem(question, (), alone, FAMILY, UNKNOWN_DIFFICULTY, 0))
