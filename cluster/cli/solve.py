"""``entente solve``: answers word problems by a trained policy's instruction variants, alone and together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cluster.cli.options import check_output, seed_option, write_json

if TYPE_CHECKING:
    from cluster.solving.answering import Asking, Solved
    from cluster.solving.policy_folder import PolicyFolder
    from cluster.solving.questions import Asked

commands = typer.Typer()
STDOUT = Path("-")


def check_json(path: Path | None) -> Path | None:
    """Callback of ``--json``: as ``check_output``, but ``-`` is the standard output."""
    return path if path == STDOUT else check_output(path)


@commands.command(
    epilog='Examples: `entente solve runs/words --question "Sam has 15 pens and buys 9 more. How many pens does Sam '
    'have?" --agents vote --json -`; `entente solve runs/words --file questions.jsonl --answer-temperature 1`; '
    "`entente solve runs/words --file gsm8k/test.jsonl --variant step_by_step --variant final_answer --json found.json`"
)
def solve(
    policy: Annotated[
        Path, typer.Argument(metavar="RUN_OR_CHECKPOINT", help="Folder of a run, a checkpoint or a published model.")
    ],
    question: Annotated[str | None, typer.Option(help="The question.")] = None,
    answer: Annotated[
        str | None, typer.Option(help="Its true answer: a number, or a solution as in GSM8K that ends in #### n.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help='File of questions, one a line: plain text or {"question": ..., "answer"?: ...}, as GSM8K.'),
    ] = None,
    agents: Annotated[
        Literal["one", "vote", "consensus", "average"],
        typer.Option(
            help="one: the first variant's answer; vote: the most frequent of the variants' answers, in "
            "a tie the first; consensus: that of the variant whose completion is most like the others; average: one "
            "text, each token by the mean of the variants' distributions."
        ),
    ] = "vote",
    samples: Annotated[int, typer.Option(min=0, max=256, help="Samples of each agent besides its answer.")] = 8,
    temperature: Annotated[float, typer.Option(min=0, max=100, help="Of the samples; 0 is greedy.")] = 1.0,
    answer_temperature: Annotated[
        float,
        typer.Option(min=0, max=100, help="Of each variant's own answer, which votes; 0 is greedy."),
    ] = 0.0,
    variant: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="An instruction variant; repeatable.", show_default="the run's variants"),
    ] = None,
    seed: Annotated[int, seed_option("The same seed draws the same samples and answers.")] = 0,
    json_out: Annotated[
        Path | None,
        typer.Option(
            "--json", callback=check_json, help="Write the results to this file as JSON; -: print them alone."
        ),
    ] = None,
) -> None:
    """Answer word problems by a trained policy, whose instruction variants are agents.

    Where the true answer is known it says what is right, with pass@k and maj@k of the samples. For a file it totals
    with 95 % intervals, and says whether answering together beats the mean single agent and whether the agents are
    more diverse than samples of one of them.
    """
    from cluster.errors import RunError
    from cluster.solving.policy_folder import find_policy
    from cluster.solving.questions import asked, read_questions

    if (question is None) == (file is None):
        raise RunError("give either --question TEXT or --file FILE")
    if answer is not None and question is None:
        raise RunError("--answer belongs to --question; in a file each line has its own")
    if agents == "average" and answer_temperature > 0:
        raise RunError(
            "--answer-temperature: the average is one greedy text, which sampled answers do not compare with"
        )
    found = find_policy(policy, variant or ())
    questions = (asked(question, answer),) if question is not None else read_questions(file or Path())
    from cluster.solving.answering import Asking  # torch is slow to import; wrong arguments need none of it
    from cluster.solving.scoring import document

    asking = Asking(agents, samples, temperature, answer_temperature, seed)
    solved = _solve(found, questions, asking, file)
    if file is None:
        from cluster.solving.lines import answer_lines

        results, lines = document(solved[0]), answer_lines(solved[0])
    else:
        from cluster.solving.lines import totals_lines
        from cluster.solving.totals import totals_document, totals_of

        totals = totals_of(solved, asking)
        lines = totals_lines(totals)
        results = {"totals": totals_document(totals), "questions": [document(each) for each in solved]}
    if json_out == STDOUT:
        from pydantic_core import to_json

        typer.echo(to_json(results, indent=2, inf_nan_mode="null"))
        return
    for line in lines:
        typer.echo(line)
    write_json(json_out, results)


def _solve(found: PolicyFolder, questions: Sequence[Asked], asking: Asking, file: Path | None) -> list[Solved]:
    from cluster.errors import RunError
    from cluster.evaluation.event_loop import run_in_loop
    from cluster.runs.progress_bars import progress_bars
    from cluster.solving.agents import Agents
    from cluster.solving.answering import solve_all

    agents = Agents(found)
    for number, each in enumerate(questions, 1):  # before the first answer: a file may take an hour
        try:
            agents.check(each.question)
        except RunError as error:
            raise (error if file is None else RunError(f"{file}, question {number}: {error}")) from None
    if file is None:
        return run_in_loop(lambda: solve_all(agents, questions, asking))
    with progress_bars() as add_bar:
        advance = add_bar("questions", len(questions))
        return run_in_loop(lambda: solve_all(agents, questions, asking, lambda: advance(1)))
