"""Small folders of other worlds than Diplomacy, made by the code that runs use, without Ray."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from cluster.comparison.cell import Cell, run_cell
from cluster.comparison.comparison import Comparison, Finished
from cluster.comparison.document import write_results
from cluster.runs.folder import RunFolder
from cluster.runs.traces import write_trace
from grpo_core.learner import Learner
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Batch, Episode
from services.environments.word_problems.world import WordProblems
from tests.unit.grpo_core.support.cases import episode_of, ragged_turn, tiny_model

_LEARNER = LearnerSettings(returns="episode", loss_type="dapo", epsilon_high=0.28, beta=0.0, minibatches=2,
                           learning_rate=3e-2, lr_warmup_updates=0)  # fmt: skip
_GROUPING = GroupingSettings(role_name="variant", keys=WordProblems.group_keys, min_group_size=2, scale_rewards="none")
_ANSWERS = 4  # to each question


def word_problem_run(folder: Path, updates: int = 2) -> Path:
    """Write a run that answers real problems by chance; its learner, records and traces are those of training."""
    world = WordProblems(WordProblems.game_settings())
    run = RunFolder(folder)
    run.audit.mkdir(parents=True)
    run.config.write_text('[task]\nname = "word_problems"\n')
    (folder / "format").write_text("2\n")
    learner = Learner(tiny_model(), _LEARNER, _GROUPING, 0)
    for version in range(updates):
        batch = Batch(_answers(world, version), version)
        result = learner.step(batch, 400)
        record = {
            **result.audit,
            "roles": [episode.role for episode in batch.episodes],
            "rewards": [episode.reward for episode in batch.episodes],
            "outcomes": {"exact_match": [episode.outcome["exact_match"] for episode in batch.episodes]},
        }
        run.write_audit(version + 1, record)
        assert result.trace is not None
        write_trace(run.traces, result.trace)
    return folder


def _answers(world: WordProblems, version: int) -> tuple[Episode, ...]:
    rng = np.random.default_rng(version)
    starts, families = world.starts(), ("shopping", "travel")
    made = []
    for number, role in enumerate(world.roles[:3] * 2):
        start = starts.draw(role, 100 * version + number)
        for answer in range(_ANSWERS):
            right = float(rng.random() < 0.5)
            turn = ragged_turn(rng, phase="", reward=right, keys={}, policy_version=version)
            plain = episode_of((turn,), role=role, name=f"b{version}-{number}/{answer}", reward=right)
            facts = {"variant": role, "question": start, "family": families[number % 2], "difficulty": number % 3}
            made.append(replace(plain, task="word_problems", keys=facts, block_size=_ANSWERS,
                                reward_parts={"exact_number": right},
                                outcome={"exact_match": right, "form": 1.0}))  # fmt: skip
    return tuple(made)


def compared_folder(folder: Path) -> Path:
    """Write what ``entente compare`` leaves of two methods on two tasks, made in this process."""
    finished = []
    for method, task in (("grpo_time", "cartpole"), ("grpo_task", "cartpole_family")):
        cell = Cell(method, task, 0, 800, 1, episodes_per_update=20, measured_episodes=5)
        (folder / "audit").mkdir(parents=True, exist_ok=True)
        finished.append(Finished(cell, tuple(row.as_json for row in run_cell(cell, folder))))
    list(write_results(Comparison(tuple(finished), ()), folder, "entente compare smoke"))
    return folder
