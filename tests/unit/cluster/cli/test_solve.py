"""``entente solve`` with a tiny random policy: its lines, its JSON, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cluster.cli.app import app
from grpo_core.errors import EntenteError
from services.environments.word_problems.answers import final_answer
from services.environments.word_problems.problem import number_text
from tests.paths import ROOT
from tests.unit.cluster.solving.policies import QUESTION, VARIANTS, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run"))


def entente(*arguments: str | Path) -> str:
    """The standard output; raises what the command raised."""
    done = CliRunner().invoke(app, [*map(str, arguments)])
    if done.exception is not None:
        raise done.exception
    return done.stdout


def solve(run: Path, *arguments: str | Path) -> Any:
    return json.loads(entente("solve", run, "--question", QUESTION, "--samples", "4", "--json", "-", *arguments))


def test_a_vote_shows_every_agents_answer(run: Path) -> None:
    found = solve(run, "--agents", "vote")
    assert (found["question"], found["mode"]) == (QUESTION, "vote")
    assert [agent["variant"] for agent in found["agents"]] == list(VARIANTS)
    for agent in found["agents"]:
        number = final_answer(agent["completion"])
        assert agent["answer"] == (None if number is None else number_text(number))
        assert agent["perplexity"] >= 1
        assert agent["samples"]["count"] == len(agent["samples"]["answers"]) == 4
        assert "right" not in agent
    assert -1 <= found["diversity"]["mean_cosine"] <= 1
    assert 1 <= found["samples_diversity"]["effective_rank"] <= 4


def test_the_same_command_prints_the_same(run: Path) -> None:
    assert solve(run, "--seed", "3") == solve(run, "--seed", "3")
    assert solve(run, "--seed", "3") != solve(run, "--seed", "4")


@pytest.mark.parametrize("mode", ["one", "vote", "consensus", "average"])
def test_each_mode_answers_a_question_whose_answer_is_known(run: Path, mode: str, tmp_path: Path) -> None:
    lines = entente(
        "solve", run, "--question", QUESTION, "--answer", "24", "--agents", mode, "--samples", "2",
        "--json", tmp_path / "found.json",
    ).splitlines()  # fmt: skip
    found = json.loads((tmp_path / "found.json").read_text())
    assert lines[0].startswith(f"{mode}: {found['answer'] or 'no answer'} (")
    assert lines[-1] == f"written to {tmp_path / 'found.json'}"
    assert (found["truth"], found["right"]) == ("24", found["answer"] == "24")
    assert {"pass_at_1", "pass_at_2", "maj_at_2"} <= found["agents"][0]["samples"].keys()
    assert len(found["agents"]) == (1 if mode == "one" else 4)


def test_variants_can_be_named_and_samples_left_out(run: Path) -> None:
    found = solve(run, "--variant", "be_concise", "--variant", "final_answer", "--samples", "0")
    assert [agent["variant"] for agent in found["agents"]] == ["be_concise", "final_answer"]
    assert "samples" not in found["agents"][0]
    assert "samples_diversity" not in found


def test_a_file_is_totalled(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    rows: list[Any] = [{"question": f"Sam has {number} pens. How many pens?", "answer": number} for number in range(3)]
    file.write_text("\n".join([*map(json.dumps, rows), "How many days are 6 weeks?"]))
    out = tmp_path / "found.json"
    said = entente("solve", run, "--file", file, "--samples", "4", "--json", out)
    assert said.startswith("4 questions, 3 with a true answer")
    assert "diverse than four samples of one agent (temperature 1)" in said
    assert "mean single agent" in said
    found = json.loads(out.read_text())
    assert (found["totals"]["questions"], found["totals"]["with_truth"]) == (4, 3)
    assert [each["question"] for each in found["questions"]][3] == "How many days are 6 weeks?"
    alone = json.loads(entente("solve", run, "--file", file, "--samples", "4", "--json", "-"))
    assert alone == found


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--question", ""], "the question is empty"),
        (["--question", "pens " * 2200], "11000 characters"),
        (["--question", "pens " * 1000], "leaves no room"),
        (["--question", "How many? <response>24</response>"], "holds the tag <response>"),
        (["--question", "How many zebras?"], "does not know the word 'zebras'"),
        (["--question", "How many\u202e pens?"], "does not know the word"),
        (["--question", QUESTION, "--variant", "step"], "no variant 'step'; there are step_by_step, "),
        (["--question", QUESTION, "--answer", "many"], "'many' is neither a number"),
        (["--question", QUESTION, "--file", "x"], "either --question TEXT or --file FILE"),
        ([], "either --question TEXT or --file FILE"),
        (["--file", "x", "--answer", "1"], "--answer belongs to --question"),
        (["--file", "missing"], "missing: cannot be read"),
        (["--question", QUESTION, "--json", "none/x.json"], "there is no folder none"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_line(
    run: Path, arguments: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EntenteError) as refused:
        entente("solve", run, *arguments)
    assert text in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert refused.value.exit_code == 2


def test_the_line_of_a_file_is_named(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "questions.txt"
    file.write_text("How many pens?\nHow many zebras?\n")
    with pytest.raises(EntenteError, match=r"questions\.txt, question 2: the policy does not know the word 'zebras'"):
        entente("solve", run, "--file", file)


def test_wrong_arguments_need_no_torch(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom cluster.cli.app import app\nfrom grpo_core.errors import EntenteError\n"
        "try:\n    app(sys.argv[1:], standalone_mode=False)\nexcept EntenteError as error:\n    print(error)\n"
        "print(sorted({'torch', 'transformers', 'scipy', 'ray', 'diplomacy'} & sys.modules.keys()))"
    )
    for arguments, text in (
        (["solve", "nowhere", "--question", "How many?"], "'nowhere' is no folder of a run or checkpoint"),
        (["solve", str(tmp_path), "--question", "How many?"], "has no config.json"),
        (["solve", "--help"], "answer word problems by a trained policy"),
        (["data", "gsm8k", "nowhere"], "nowhere: cannot be read"),
        (["data", "rows", "--out", "rows.jsonl", "--problems", "2"], "8 rows written to rows.jsonl"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert text.casefold() in " ".join(done.stdout.split()).casefold(), done.stdout
        assert done.stdout.splitlines()[-1] == "[]", arguments


def test_sampled_answers_are_no_yardstick_for_a_greedy_average(run: Path) -> None:
    with pytest.raises(EntenteError, match="--answer-temperature: the average is"):
        entente("solve", run, "--question", QUESTION, "--agents", "average", "--answer-temperature", "1")
