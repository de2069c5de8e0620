"""``entente data``: checks a file of GSM8K, and writes rows and questions of made problems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cluster.cli.options import check_output, comma_separated, seed_option

if TYPE_CHECKING:
    from services.environments.word_problems.problem import Split, WordProblem

commands = typer.Typer(help="Check and write data of word problems.", no_args_is_help=True)


@commands.command(epilog="Examples: `entente data gsm8k train.jsonl --rows train`; `entente data gsm8k mine.jsonl`")
def gsm8k(
    file: Annotated[Path, typer.Argument(help="A local file: one JSON object a line, with question and answer.")],
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="N|train|test",
            help="The rows it must have: a number, or those of GSM8K's own files (7,473 and 1,319).",
            show_default="any but 0",
        ),
    ] = None,
) -> None:
    """Check a file of GSM8K: its rows, their form, and that every answer is read as a number."""
    from services.environments.word_problems.files.gsm8k import read_gsm8k

    problems = read_gsm8k(file, _rows(rows))
    count = len(problems)
    decimal = sum(problem.answer.denominator != 1 for problem in problems) / count
    negative = sum(problem.answer < 0 for problem in problems)
    longest = max(len(problem.question.text) for problem in problems)
    lines = sum(len(problem.solution) for problem in problems) / count
    typer.echo(
        f"{file}: {count:,} rows, every answer read; longest question {longest:,} characters, {lines:.1f} lines a "
        f"solution, {decimal:.1%} of answers with decimals, {negative:,} negative"
    )


Out = Annotated[Path, typer.Option(callback=check_output, help="Where the lines go, as JSONL.")]
Count = Annotated[int, typer.Option(min=1, max=100_000, help="Different problems.")]
Seed = Annotated[int, seed_option("The same seed makes the same problems.")]
Families = Annotated[str, typer.Option(help="Families, comma-separated; they take turns.", show_default="all")]
Difficulties = Annotated[str, typer.Option(help="From 1 to 5, comma-separated; they take turns.")]
Side = Annotated[Literal["train", "held_out"], typer.Option(help="The side of the split, by the question's text.")]


@commands.command(
    epilog="Examples: `entente data rows --out train.jsonl --problems 1000 --seed 7`; `entente data rows --out "
    "test.jsonl --problems 200 --seed 7 --split held_out --families ages,buying --difficulties 1,2,3`"
)
def rows(
    out: Out,
    problems: Count,
    seed: Seed = 0,
    families: Families = "",
    difficulties: Difficulties = "1,2",
    split: Side = "train",
    variant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="An instruction variant; repeatable.", show_default="the four of made problems"
        ),
    ] = None,
) -> None:
    """Write rows of prompt, answer, role and task: each problem once under each instruction variant."""
    from cluster.errors import RunError
    from grpo_core.errors import one_line
    from services.environments.word_problems.files.rows import row_of, write_rows
    from services.environments.word_problems.instructions import INSTRUCTIONS, VARIANT_SETS

    variants = list(dict.fromkeys(variant or VARIANT_SETS["made"]))
    if unknown := [name for name in variants if name not in INSTRUCTIONS]:
        raise RunError(f"there is no variant {one_line(repr(unknown[0]), 80)}; there are {', '.join(INSTRUCTIONS)}")
    found = _wanted_problems(split, families, difficulties, problems, seed)
    made = [row_of(problem, role) for problem in found for role in variants]
    write_rows(out, made)
    under = f"{len(variants)} variant{'s' * (len(variants) > 1)}"
    typer.echo(f"{len(made):,} rows written to {out}: {problems:,} problems ({split}) under {under}")


@commands.command(
    epilog="Example: `entente data questions --out questions.jsonl --problems 300 --difficulties 2`, then "
    "`entente solve runs/words --file questions.jsonl --agents vote`"
)
def questions(
    out: Out,
    problems: Count,
    seed: Seed = 0,
    families: Families = "",
    difficulties: Difficulties = "1,2",
    split: Side = "held_out",
) -> None:
    """Write questions with worked answers, in the form of GSM8K, as `entente solve --file` reads them."""
    import json

    from grpo_core.checkpoints.atomic_write import write_atomically
    from services.environments.word_problems.files.gsm8k import gsm8k_row

    found = _wanted_problems(split, families, difficulties, problems, seed)
    write_atomically(out, "".join(json.dumps(gsm8k_row(problem)) + "\n" for problem in found).encode())
    typer.echo(f"{problems:,} questions ({split}) written to {out}")


def _wanted_problems(split: Split, families: str, difficulties: str, count: int, seed: int) -> list[WordProblem]:
    """The problems that the options ask for; RunError where there are none."""
    from cluster.errors import RunError
    from grpo_core.errors import one_line
    from services.environments.word_problems.families.registry import FAMILIES

    try:
        levels = [int(each) for each in comma_separated(difficulties)]
    except ValueError:
        raise RunError(f"--difficulties {one_line(repr(difficulties), 60)}: give whole numbers from 1 to 5") from None
    if not levels:
        raise RunError("--difficulties names none; give whole numbers from 1 to 5, such as 1,2")
    try:
        return distinct_problems(split, comma_separated(families) or list(FAMILIES), levels, count, seed)
    except ValueError as error:
        raise RunError(one_line(error, 300)) from error


def distinct_problems(
    split: Split, families: Sequence[str], difficulties: Sequence[int], count: int, seed: int
) -> list[WordProblem]:
    """Make ``count`` problems with different questions on one side of the split; families and difficulties take turns.

    Raises ValueError for an unknown family or difficulty, RunError where they do not have as many questions.
    """
    from cluster.errors import RunError
    from grpo_core.seeds import derive_seed
    from services.environments.word_problems.families.registry import generate_in

    cells = [(family, difficulty) for family in families for difficulty in difficulties]
    found: dict[str, WordProblem] = {}
    for attempt in range(20 * count + 1000):
        own = derive_seed(seed, "rows", attempt) % 10**9
        problem = generate_in(split, *cells[attempt % len(cells)], own)
        found.setdefault(problem.question.text, problem)
        if len(found) == count:
            return list(found.values())
    raise RunError(f"there are only about {len(found):,} different questions of this kind; name more families")


def _rows(wanted: str | None) -> int | None:
    """The number of rows that ``--rows`` says."""
    from cluster.errors import RunError
    from grpo_core.errors import one_line
    from services.environments.word_problems.files.gsm8k import TEST_ROWS, TRAIN_ROWS

    known = {"train": TRAIN_ROWS, "test": TEST_ROWS}
    if wanted is None or wanted in known:
        return None if wanted is None else known[wanted]
    if not (wanted.isascii() and wanted.isdigit() and 0 < len(wanted) <= 9 and int(wanted)):
        raise RunError(f"--rows {one_line(repr(wanted), 60)}: give a number from 1, train or test")
    return int(wanted)
