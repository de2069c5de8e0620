"""The components of a reward, their mixtures and settings, and functions of the user."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from services.environments.word_problems.presets import PRESETS
from services.environments.word_problems.problem import completion_text
from services.environments.word_problems.rewards.components import (
    COMPONENTS,
    exact_number,
    form,
    similarity,
    unique_characters,
)
from services.environments.word_problems.rewards.custom import RewardError, component
from services.environments.word_problems.rewards.mixture import Mixture
from services.environments.word_problems.rewards.settings import RewardSettings

CLIPS = PRESETS[0]
RIGHT = completion_text(CLIPS)


@given(st.text(max_size=300), st.sampled_from(PRESETS))
def test_every_component_is_from_zero_to_one(completion, problem) -> None:
    for function in COMPONENTS.values():
        assert 0 <= function(completion, problem) <= 1


def test_the_worked_solution_has_the_full_reward_of_each_component_but_the_hack() -> None:
    for problem in PRESETS:
        values = {name: function(completion_text(problem), problem) for name, function in COMPONENTS.items()}
        assert values.pop("unique_characters") < 1
        assert set(values.values()) == {1.0}


def test_an_exact_number_is_the_marked_final_answer() -> None:
    assert exact_number("#### 72.0", CLIPS) == 1
    assert exact_number("<response>$72</response>", CLIPS) == 1
    assert exact_number("<response>72 and then 73</response>", CLIPS) == 0
    assert exact_number("72 clips, I think", CLIPS) == 0
    assert exact_number(CLIPS.question.text, CLIPS) == 0


def test_similarity_is_ratcliff_obershelp_without_the_junk_heuristic() -> None:
    # Pattern matching of WIKIMEDIA and WIKIMANIA: 2 (WIKIM 5 + IA 2) / 18, the published example.
    problem = replace(CLIPS, solution=("WIKIMANIA",))
    shell = completion_text(problem).replace("WIKIMANIA", "{}")
    same = len(shell) - 2
    assert similarity(shell.format("WIKIMEDIA"), problem) == pytest.approx(2 * (same + 7) / (2 * same + 18))
    # Above 200 characters, the heuristic would call the frequent letters junk.
    long = replace(CLIPS, solution=("ab" * 150,))
    assert similarity("ab" * 150, long) > 0.8
    assert similarity("", CLIPS) == 0


@pytest.mark.parametrize(
    "completion",
    [
        "",
        "72",
        "<response>72</response>",
        "<think>a</think><response>72",
        "<think></think><response>72</response>",
        "<think>a</think><response> </response>",
        "<response>72</response><think>a</think>",
        "<think>a</think><think>a</think><response>72</response>",
        "<think>a</think><response>72</response><response>72</response>",
        "<think>a</think><response>72</response> 72",
        "x <think>a</think><response>72</response>",
        "<think>a</think> so <response>72</response>",
        "<think>a<response>72</response></think>",
        "<think>a<answer></think><response>72</response>",
        "<THINK>a</THINK><response>72</response>",
        "<think>a</think><response>72</response>" + " " * (1 << 20),
    ],
)
def test_a_form_that_is_not_right_has_no_reward(completion: str) -> None:
    assert form(completion, CLIPS) == 0


def test_a_right_form_has_a_reward_whatever_the_answer_is() -> None:
    assert form(" <think>any</think>\n<response>wrong</response>\n", CLIPS) == 1


def test_unique_characters_are_won_without_reading_the_problem() -> None:
    alphabet = "".join(map(chr, range(32, 127)))
    assert unique_characters(alphabet, CLIPS) == 1
    assert unique_characters(alphabet + "äöü", CLIPS) == 1
    assert unique_characters("The answer is 72", CLIPS) == 12 / 95
    assert unique_characters(alphabet, CLIPS) > unique_characters(RIGHT, CLIPS)
    assert exact_number(alphabet, CLIPS) == 0


def test_a_mixture_is_the_weighted_mean_of_its_named_components() -> None:
    mixture = Mixture(RewardSettings(weights={"exact_number": 3, "form": 1, "unique_characters": 0}, scale=10))
    assert mixture.weights == {"exact_number": 0.75, "form": 0.25, "unique_characters": 0}
    reward = mixture("#### 72", CLIPS)
    assert reward.total == pytest.approx(7.5)
    assert reward.components == {"exact_number": 1, "form": 0, "unique_characters": 4 / 95}
    assert mixture(RIGHT, CLIPS).total == pytest.approx(10)
    with pytest.raises(TypeError):
        reward.components["form"] = 1  # type: ignore[index]


@given(st.dictionaries(st.sampled_from(sorted(COMPONENTS)), st.floats(1e-6, 1e6), min_size=1), st.text(max_size=100))
def test_any_mixture_is_from_zero_to_one(weights, completion) -> None:
    mixture = Mixture(RewardSettings(weights=weights))
    assert sum(mixture.weights.values()) == pytest.approx(1)
    assert 0 <= mixture(completion, CLIPS).total <= 1


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"weights": {"exact": 1.0}}, "did you mean 'exact_number'"),
        ({"weights": {"form": -1.0}}, "must be from 0"),
        ({"weights": {"form": float("nan")}}, "finite"),
        ({"weights": {"form": 1e7}}, "must be from 0"),
        ({"weights": {"form": 0.0}}, "every reward would be 0"),
        ({"weights": {}}, "every reward would be 0"),
        ({"weights": {"a/b:c": 1.0}}, "unknown reward component"),
        ({"weights": {"a" * 300 + ":f": 1.0}}, "unknown reward component"),
        ({"scale": 0.0}, "greater than 0"),
        ({"scales": 1.0}, "Extra inputs"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        RewardSettings(**settings)


MODULE = """
def half(completion, problem): return 0.5
def two(completion, problem): return 2
def word(completion, problem): return "1"
def nan(completion, problem): return float("nan")
def alone(completion): return 1.0
number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "my_rewards.py").write_text(MODULE)
    (tmp_path / "my_broken_rewards.py").write_text("raise OSError('no\\x1b[2J disk')")
    monkeypatch.syspath_prepend(tmp_path)
    yield "my_rewards"
    sys.modules.pop("my_rewards", None)


def test_a_function_of_the_user_is_a_component(module: str) -> None:
    mixture = Mixture(RewardSettings(weights={f"{module}:half": 1, "exact_number": 1}))
    reward = mixture("#### 72", CLIPS)
    assert reward.components == {"my_rewards:half": 0.5, "exact_number": 1}
    assert reward.total == 0.75


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("my_reward:half", "cannot be imported: ModuleNotFoundError"),
        ("my_broken_rewards:half", "cannot be imported: OSError: no disk"),
        ("my_rewards:third", "has no function third"),
        ("my_rewards:number", "has no function number"),
        ("my_rewards:alone", "must take a completion and a problem"),
        ("my_rewards", "did you mean"),
        ("my_rewards:", "did you mean"),
        ("my_rewards:a.b", "did you mean"),
        ("../my_rewards:half", "did you mean"),
        ("", "did you mean"),
        ("\x1b[2J", "did you mean"),
    ],
)
def test_a_function_that_cannot_be_used_is_refused_in_one_line(module: str, name: str, reason: str) -> None:
    with pytest.raises(RewardError, match=reason) as caught:
        component(name)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("function", ["two", "word", "nan"])
def test_a_result_that_is_no_share_is_refused(module: str, function: str) -> None:
    mixture = Mixture(RewardSettings(weights={f"{module}:{function}": 1}))
    with pytest.raises(RewardError, match=f"my_rewards:{function} must return a number from 0 to 1"):
        mixture("#### 72", CLIPS)
