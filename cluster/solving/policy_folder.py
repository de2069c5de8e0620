"""Finds the policy that answers, and refuses in a moment what would otherwise fail after slow imports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import RunError
from cluster.runs.folder import has_sampling, sampling_of
from grpo_core.checkpoints.folders import latest_checkpoint
from grpo_core.errors import one_line
from grpo_core.models.folder_files import check_files
from grpo_core.settings import PolicySettings
from services.environments.word_problems.instructions import INSTRUCTIONS
from services.environments.word_problems.play.settings import WordProblemSettings
from services.environments.word_problems.world import WordProblems
from services.settings import InferenceSettings


@dataclass(frozen=True, slots=True)
class PolicyFolder:
    """A checkpoint or published model, and how it is to be asked."""

    folder: Path
    world: WordProblems
    policy: PolicySettings | None  # None: a language model as it was published, asked as its template says
    inference: InferenceSettings
    variants: tuple[str, ...]  # the agents


def find_policy(path: Path, variants: Sequence[str] = ()) -> PolicyFolder:
    """Find the newest checkpoint of a run, or a model's own folder; ``variants`` () are those of its run.

    A model outside any run is asked under the variants that runs have by default.

    Raises RunError if there is no such folder, it is of a run of another world, or a variant does not exist,
    CheckpointError if the folder is no usable model, ConfigError if its run's config cannot be used.
    """
    if not path.is_dir():
        raise RunError(f"{one_line(repr(str(path)), 120)} is no folder of a run or checkpoint")
    if has_sampling(path):
        config = sampling_of(path)
        world, policy, inference = config.world, config.policy, config.inference
        if not isinstance(world, WordProblems):
            raise RunError(
                f"{path} was trained in the world {world.name}, and only policies for word problems solve them"
            )
    else:
        world, policy, inference = WordProblems(WordProblemSettings()), None, InferenceSettings()
    for name in variants:
        if name not in INSTRUCTIONS:
            raise RunError(f"there is no variant {one_line(repr(name), 80)}; there are {', '.join(INSTRUCTIONS)}")
    if len(set(variants)) < len(variants):
        raise RunError("--variant names one variant twice")
    folder = latest_checkpoint(path) or path
    check_files(folder)
    return PolicyFolder(folder, world, policy, inference, tuple(variants) or world.roles)
