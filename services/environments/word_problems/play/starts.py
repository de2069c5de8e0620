"""Which problem a block has: a short text such as ``ages/2/7313``, drawn by seed, or by measured pass rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from grpo_core.seeds import derive_seed
from services.environments.playing import Parts
from services.environments.word_problems.curriculum import Cell, Tries, choose, open_cells, weights
from services.environments.word_problems.families.registry import generate, generate_in
from services.environments.word_problems.files.gsm8k import FAMILY as GSM8K
from services.environments.word_problems.files.gsm8k import read_gsm8k
from services.environments.word_problems.play.settings import WordProblemSettings
from services.environments.word_problems.problem import Split, WordProblem

GROUP_SIZE = 8  # completions whose differences teach, for the weights of the curriculum
REMEMBERED = 256  # completions of a cell; older ones fade, since the policy changes


def made_start(split: Split, family: str, difficulty: int, seed: int) -> str:
    """The start of a made problem on one side of the split."""
    return f"{family}/{difficulty}/{generate_in(split, family, difficulty, seed % 10**9).seed}"


def row_start(row: int) -> str:
    """The start of a row of GSM8K."""
    return f"{GSM8K}/0/{row}"


def problem_of(start: str, gsm8k: str | None) -> WordProblem:
    """The problem of a start, of which ``gsm8k`` is the file with rows.

    Raises ValueError for a text that is no start, ProblemFileError for a file that cannot be used.
    """
    family, difficulty, number = start.split("/")
    if family != GSM8K:
        return _made_problem(family, int(difficulty), int(number))
    if gsm8k is None:
        raise ValueError(f"{start} is a row of GSM8K, and no file of it is named")
    rows = gsm8k_rows(gsm8k)
    if not 0 <= int(number) < len(rows):
        raise ValueError(f"{start} is no row of {gsm8k}, which has {len(rows):,}")
    return rows[int(number)]


@lru_cache(maxsize=1024)  # the games of a block have the same problem
def _made_problem(family: str, difficulty: int, number: int) -> WordProblem:
    return generate(family, difficulty, number)


@lru_cache(maxsize=4)
def gsm8k_rows(path: str) -> tuple[WordProblem, ...]:
    """The rows of a file, read once. Raises ProblemFileError if it cannot be used."""
    return read_gsm8k(Path(path))


class ProblemStarts:
    """Draws the problems of a run; under a curriculum by how earlier ones went."""

    def __init__(self, settings: WordProblemSettings) -> None:
        self._settings = settings
        self._history: dict[Cell, Tries] = {}

    def draw(self, role: str, seed: int) -> str:  # noqa: ARG002
        """A problem that is not held out."""
        settings = self._settings
        if settings.gsm8k is not None:
            return row_start(seed % len(gsm8k_rows(settings.gsm8k)))
        share = derive_seed(seed, "cell") / 2**63
        cells = [(family, difficulty) for family in settings.families for difficulty in settings.difficulties]
        if settings.curriculum:
            cells = self._open_cells() or cells
            family, difficulty = choose(weights(self._history, cells, GROUP_SIZE), share)
        else:
            family, difficulty = cells[int(share * len(cells))]
        return made_start("train", family, difficulty, derive_seed(seed, "problem"))

    def record(self, role: str, start: str, outcomes: Sequence[Parts]) -> None:  # noqa: ARG002
        """Count the right completions of a block."""
        family, difficulty, _ = start.split("/")
        cell = (family, int(difficulty))
        before = self._history.get(cell, Tries())
        tried, solved = before.tried + len(outcomes), before.solved + sum(o["exact_match"] >= 1 for o in outcomes)
        if tried > REMEMBERED:
            tried, solved = tried // 2, solved // 2
        self._history[cell] = Tries(tried, solved)

    def metrics(self) -> Mapping[str, float]:
        """No figures of their own: windows by role follow the pass rates."""
        return {}

    def state(self) -> Any:
        """The counts by cell, where draws depend on them."""
        if not self._settings.curriculum:
            return None
        return {f"{family}/{number}": [t.tried, t.solved] for (family, number), t in sorted(self._history.items())}

    def load_state(self, state: Any) -> None:
        """Go on from ``state()``. Raises ValueError if it is damaged."""
        history: dict[Cell, Tries] = {}
        try:
            for name, (tried, solved) in state.items():
                family, number = name.split("/")
                if not type(tried) is type(solved) is int:
                    raise ValueError(f"{name} has no whole numbers")
                history[family, int(number)] = Tries(tried, solved)
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"the counts of the curriculum are damaged: {error}") from None
        self._history = history

    def _open_cells(self) -> list[Cell]:
        """The cells to train now. The first of the run's difficulties takes the place of 1, the next that of 2."""
        ladder = sorted(self._settings.difficulties)
        steps = {(family, ladder.index(d) + 1): t for (family, d), t in self._history.items() if d in ladder}
        opened = open_cells(steps, self._settings.families, hardest=len(ladder))
        return [(family, ladder[step - 1]) for family, step in opened]
