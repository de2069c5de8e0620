"""Which problems are trained: never a held-out one, by seed alone or by a curriculum that survives its process."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo_core.seeds import derive_seed
from services.environments.word_problems.families.registry import FAMILIES
from services.environments.word_problems.play.starts import REMEMBERED, ProblemStarts, problem_of
from services.environments.word_problems.problem import ProblemFileError, split_of
from tests.unit.services.environments.word_problems.play.worlds import VARIANTS, word_problems

ROWS = [{"question": f"There are {n} hens and 2 more. How many hens?", "answer": f"#### {n + 2}"} for n in range(7)]
RIGHT, WRONG = {"exact_match": 1.0}, {"exact_match": 0.0}


@pytest.fixture
def gsm8k(tmp_path: Path) -> str:
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return str(path)


def drawn(starts: Any, count: int = 400) -> list[str]:
    return [starts.draw(VARIANTS[number % 2], derive_seed("start", number)) for number in range(count)]


def cells(starts: Any, count: int = 400) -> Counter[str]:
    return Counter(start.rpartition("/")[0] for start in drawn(starts, count))


@pytest.mark.parametrize("curriculum", [False, True])
def test_training_never_draws_a_held_out_question(curriculum: bool) -> None:
    world = word_problems(difficulties=(1, 2, 3, 4, 5), curriculum=curriculum)
    starts = drawn(world.starts())
    assert {split_of(problem_of(start, None).question) for start in starts} == {"train"}
    assert len(set(starts)) > 300
    assert starts == drawn(world.starts())


def test_without_a_curriculum_all_families_and_difficulties_come_alike() -> None:
    counted = cells(word_problems(difficulties=(2, 4)).starts(), 2200)
    assert counted.keys() == {f"{family}/{number}" for family in FAMILIES for number in (2, 4)}
    assert 60 < min(counted.values()) <= max(counted.values()) < 145  # 100 each


def test_results_change_nothing_without_a_curriculum() -> None:
    starts = word_problems().starts()
    before = drawn(starts)
    for start in before:
        starts.record(VARIANTS[0], start, [RIGHT] * 8)
    assert drawn(starts) == before
    assert starts.state() is None
    assert starts.metrics() == {}


def record(starts: ProblemStarts, cell: str, right: int, wrong: int) -> None:
    starts.record(VARIANTS[0], f"{cell}/1", [RIGHT] * right + [WRONG] * wrong)


def test_a_curriculum_begins_easy_and_goes_on_once_that_is_solved() -> None:
    starts = word_problems(families=("ages", "buying"), difficulties=(1, 2, 3), curriculum=True).starts()
    assert cells(starts).keys() == {"ages/1", "buying/1"}
    record(starts, "ages/1", 20, 20)
    assert cells(starts).keys() == {"ages/1", "ages/2", "buying/1"}
    record(starts, "ages/1", 200, 0)  # too easy now
    record(starts, "ages/2", 8, 32)
    assert cells(starts).keys() == {"ages/2", "ages/3", "buying/1"}


def test_a_curriculum_climbs_the_difficulties_that_the_run_has() -> None:
    """A run of difficulties 2 and 4 begins at 2, and 4 opens when 2 is solved."""
    starts = word_problems(families=("ages",), difficulties=(4, 2), curriculum=True).starts()
    assert cells(starts).keys() == {"ages/2"}
    record(starts, "ages/2", 20, 20)
    assert cells(starts).keys() == {"ages/2", "ages/4"}
    record(starts, "ages/2", 200, 0)
    assert cells(starts).keys() == {"ages/4"}
    record(starts, "ages/4", 200, 0)  # everything is solved: there is still something to train
    assert cells(starts).keys() == {"ages/2"}


def test_old_results_fade() -> None:
    starts = word_problems(families=("ages",), difficulties=(1,), curriculum=True).starts()
    for _ in range(100):
        record(starts, "ages/1", 0, 8)
    for _ in range(100):
        record(starts, "ages/1", 8, 0)
    tried, solved = starts.state()["ages/1"]
    assert tried <= REMEMBERED
    assert solved / tried > 0.9


def test_a_block_that_is_nearly_right_is_not_right() -> None:
    starts = word_problems(families=("ages",), difficulties=(1,), curriculum=True).starts()
    starts.record(VARIANTS[0], "ages/1/5", [{"exact_match": 0.5}, {"exact_match": 1.0}])
    assert starts.state() == {"ages/1": [2, 1]}


def test_a_curriculum_goes_on_from_its_state() -> None:
    world = word_problems(difficulties=(1, 2, 3), curriculum=True)
    starts = world.starts()
    for number, start in enumerate(drawn(starts, 200)):
        starts.record(VARIANTS[0], start, [RIGHT] * (number % 9) + [WRONG] * (8 - number % 9))
    state = json.loads(json.dumps(starts.state()))
    again = world.starts()
    again.load_state(state)
    assert again.state() == starts.state()
    assert drawn(again) == drawn(starts) != drawn(world.starts())
    world.starts().load_state({})


@pytest.mark.parametrize(
    "state",
    [
        None,
        [],
        7,
        "ages/1",
        {"ages": [1, 1]},
        {"ages/x": [1, 1]},
        {"ages/1/2": [1, 1]},
        {"ages/1": []},
        {"ages/1": [1]},
        {"ages/1": [1, 2, 3]},
        {"ages/1": [1, 2]},
        {"ages/1": [-1, -1]},
        {"ages/1": [1, -1]},
        {"ages/1": "21"},
        {"ages/1": [2.5, 1]},
        {"ages/1": [float("inf"), 1]},
        {"ages/1": [float("nan"), 1]},
        {"ages/1": [True, False]},
        {"ages/1": None},
    ],
    ids=repr,
)
def test_a_damaged_state_is_refused_and_changes_nothing(state: Any) -> None:
    starts = word_problems(curriculum=True).starts()
    record(starts, "ages/1", 3, 4)
    with pytest.raises(ValueError, match="the counts of the curriculum are damaged: ") as caught:
        starts.load_state(state)
    assert "\n" not in str(caught.value)
    assert starts.state() == {"ages/1": [7, 3]}


def test_rows_of_a_file_are_trained_instead_of_made_problems(gsm8k: str) -> None:
    world = word_problems(gsm8k=gsm8k)
    starts = drawn(world.starts())
    assert set(starts) == {f"gsm8k/0/{row}" for row in range(len(ROWS))}
    for start in set(starts):
        game = world.new_game(start, VARIANTS[0], 0)
        row = ROWS[int(start.rpartition("/")[2])]
        assert game.view(VARIANTS[0]).questions[0].text == row["question"]
        game.step({VARIANTS[0]: (row["answer"],)})
        assert game.result().outcomes[VARIANTS[0]]["exact_match"] == 1
        assert game.start_facts(VARIANTS[0])["family"] == "gsm8k"


@pytest.mark.parametrize(
    "start", ["", "ages", "ages/1", "ages/1/2/3", "ages/x/1", "ages/1/x", "ages/9/1", "agse/1/1", "gsm8k/0/1"]
)
def test_a_text_that_is_no_start_is_refused(start: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        word_problems().new_game(start, VARIANTS[0], 0)


@pytest.mark.parametrize("row", [-1, 7, 10**9])
def test_a_row_that_the_file_lacks_is_refused(gsm8k: str, row: int) -> None:
    with pytest.raises(ValueError, match=rf"gsm8k/0/{row} is no row of .*train\.jsonl, which has 7"):
        word_problems(gsm8k=gsm8k).new_game(f"gsm8k/0/{row}", VARIANTS[0], 0)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "cannot be read"),
        (lambda path: path.mkdir(), "cannot be read"),
        (lambda path: path.write_text(""), "it has 0 rows"),
        (lambda path: path.write_text("{}\n"), "line 1: it has no text under 'question'"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_where_it_is_first_read(
    tmp_path: Path, make: Callable[[Path], object], reason: str
) -> None:
    path = tmp_path / "rows.jsonl"
    make(path)
    with pytest.raises(ProblemFileError, match=reason) as caught:
        word_problems(gsm8k=str(path)).starts().draw(VARIANTS[0], 1)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
