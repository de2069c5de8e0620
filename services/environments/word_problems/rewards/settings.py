"""Settings of the reward of word problems."""

from __future__ import annotations

import difflib

from pydantic import Field, field_validator

from grpo_core.errors import one_line
from grpo_core.section import Settings
from services.environments.word_problems.rewards.components import COMPONENTS
from services.environments.word_problems.rewards.custom import is_import_path

LARGEST_SCALE = 1e6  # returns stay finite


class RewardSettings(Settings):
    """The components of the reward, their weights and its scale."""

    weights: dict[str, float] = Field(
        default_factory=lambda: {"exact_number": 0.9, "form": 0.1},
        examples=[{"exact_number": 0.8, "similarity": 0.2}],
        description="Weights of the reward's components, divided by their sum: exact_number, similarity (to the worked "
        "solution), form (tags), unique_characters (a demonstration of reward hacking), or a function of yours as "
        "package.module:function. Each component is from 0 to 1",
    )
    scale: float = Field(1.0, gt=0, le=LARGEST_SCALE, description="Factor of the reward; 1: it is from 0 to 1")

    @field_validator("weights")
    @classmethod
    def _can_be_normalised(cls, value: dict[str, float]) -> dict[str, float]:
        for name, weight in value.items():
            if name not in COMPONENTS and not is_import_path(name):
                near = difflib.get_close_matches(name[:60], COMPONENTS, n=1, cutoff=0.0)[0]
                raise ValueError(f"unknown reward component {one_line(repr(name), 80)}; did you mean {near!r}?")
            if not 0 <= weight <= LARGEST_SCALE:
                raise ValueError(
                    f"the weight of {one_line(name, 80)} must be from 0 to {LARGEST_SCALE:g}, not {weight}"
                )
        if not any(value.values()):
            raise ValueError(f"every reward would be 0: give a weight to one of {', '.join(COMPONENTS)}")
        return value
