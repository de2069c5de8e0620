"""What a configuration says about word problems: its sections ``[game]``, ``[evaluation]`` and ``[imitation]``."""

from __future__ import annotations

import difflib
from typing import Annotated

from pydantic import Field, Strict, field_validator

from grpo_core.errors import one_line
from grpo_core.section import Settings, Texts
from services.environments.settings import EvaluationSettings, ImitationSettings
from services.environments.word_problems.families.registry import FAMILIES
from services.environments.word_problems.instructions import ROLES, VARIANT_SETS
from services.environments.word_problems.problem import DIFFICULTIES
from services.environments.word_problems.rewards.settings import LARGEST_SCALE, RewardSettings

# What the policy is evaluated on.
HELD_OUT, UNSEEN_WORDING, GSM8K_TEST = "held_out", "unseen_wording", "gsm8k"
PROBLEM_SETS = (HELD_OUT, UNSEEN_WORDING, GSM8K_TEST)


def _known(names: tuple[str, ...], known: tuple[str, ...], what: str) -> tuple[str, ...]:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name[:60], known, n=1, cutoff=0.0)[0]
            raise ValueError(f"there is no {what} {one_line(repr(name), 80)}; did you mean {near!r}?")
    if len(set(names)) < len(names):
        raise ValueError(f"it names a {what} twice")
    return names


class WordProblemSettings(Settings):
    """The training problems, their instructions and their rewards."""

    variants: Texts = Field(
        tuple(VARIANT_SETS["made"]),
        min_length=1,
        examples=[["step_by_step", "final_answer"]],
        description="Instruction variants, which are the roles: step_by_step, short_arithmetic, final_answer, "
        "chain_of_thought, or those of GSM8K: solve_steps, use_chain, be_concise, explain_first",
    )
    families: Texts = Field(
        tuple(FAMILIES),
        min_length=1,
        examples=[["buying", "ages"]],
        description=f"Families of made problems: {', '.join(FAMILIES)}",
    )
    difficulties: Annotated[tuple[int, ...], Strict(False)] = Field(
        (1, 2), min_length=1, examples=[[1, 2]], description="Difficulties of made problems, from 1 to 5"
    )
    gsm8k: str | None = Field(
        None, description="File of GSM8K's training rows to train on instead of made problems; unset: made ones"
    )
    curriculum: bool = Field(
        False,
        description="Draw families and difficulties by the policy's measured pass rates, harder ones once easier ones "
        "are solved; false: all alike",
    )
    follow_ups: int = Field(0, ge=0, le=8, description="Further questions about the answer, in the same conversation")
    reward: dict[str, float] = Field(
        default_factory=lambda: RewardSettings().weights,
        examples=[{"exact_number": 0.8, "similarity": 0.2}],
        description=RewardSettings.model_fields["weights"].description,
    )
    reward_scale: float = Field(
        1.0, gt=0, le=LARGEST_SCALE, description=RewardSettings.model_fields["scale"].description
    )

    @field_validator("variants")
    @classmethod
    def _variants_exist(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _known(value, ROLES, "instruction variant")

    @field_validator("families")
    @classmethod
    def _families_exist(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _known(value, tuple(FAMILIES), "family")

    @field_validator("difficulties")
    @classmethod
    def _difficulties_exist(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not set(value) <= set(DIFFICULTIES) or len(set(value)) < len(value):
            raise ValueError("difficulties are different whole numbers from 1 to 5")
        return value

    @field_validator("reward")
    @classmethod
    def _reward_can_be_paid(cls, value: dict[str, float]) -> dict[str, float]:
        return RewardSettings(weights=value).weights


class WordProblemEvaluation(EvaluationSettings):
    """Evaluations: problems that were never trained, each answered once greedily and then in samples."""

    against: Texts = Field(
        (HELD_OUT,),
        examples=[[HELD_OUT, UNSEEN_WORDING]],
        description="Problem sets, one evaluation each: held_out (made problems that training never draws), "
        "unseen_wording (the same under instructions that were not trained), gsm8k (rows of evaluation.gsm8k)",
    )
    problems: int = Field(100, ge=1, le=100_000, description="Problems of a set; the variants take turns")
    samples: int = Field(8, ge=1, le=256, description="Samples of each problem; pass@8 and maj@8 need 8")
    final_against: Texts = Field(
        (), examples=[[UNSEEN_WORDING]], description="Further sets for the trained policy only"
    )
    gsm8k: str | None = Field(None, description="File of GSM8K's test rows, for the set gsm8k")

    @property
    def role_games(self) -> int:
        """Answers of all variants together."""
        return self.problems * (self.samples + 1)


class WordProblemImitation(ImitationSettings):
    """Worked solutions that the policy imitates before it answers by itself."""

    games: int = Field(0, ge=0, le=10**6, description="Problems whose worked solutions are imitated; 0: none")
    answer_only: float = Field(
        0.0, ge=0, le=1, description="Share of the solutions that are shown without their working, as the answer alone"
    )
    teacher: str = Field("solutions", pattern="^solutions$", description="What is imitated: the worked solutions")
