"""A run folder with traces, made by the learner itself on made-up games, without engine or Ray."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from cluster.runs.folder import RunFolder
from cluster.runs.traces import write_trace
from grpo_core.learner import Learner
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.traces.update_trace import UpdateTrace
from grpo_core.types import Batch, Episode
from tests.long_run import long_run
from tests.unit.grpo_core.support.cases import episode_of, ragged_turn, tiny_model

ROLES = ("AUSTRIA", "FRANCE", "TURKEY")
PHASES = ("S1901M", "F1901M", "W1901A", "S1902M")
LEARNER = LearnerSettings(minibatches=4, learning_rate=3e-2, lr_warmup_updates=0, entropy_coef=0.001)
GROUPING = GroupingSettings(keys=("country+phase", "country"), min_group_size=4, group_weights="performance")


def traced_run(
    folder: Path,
    updates: int = 3,
    *,
    detailed: int | None = None,
    settings: LearnerSettings = LEARNER,
    grouping: GroupingSettings = GROUPING,
) -> Path:
    """Write a run of ``updates`` with audit records, and with traces of ``detailed`` different updates, repeated."""
    long_run(folder, updates)
    RunFolder(folder).traces.mkdir()
    (folder / "format").write_text("2\n")
    reference = tiny_model() if settings.beta > 0 else None
    learner = Learner(tiny_model(), settings, grouping, 0, reference=reference)
    made = []
    for version in range(detailed or updates):
        result = learner.step(Batch(games(version, rated=grouping.opponent_adjusted), version), 700)
        assert result.trace is not None
        made.append(result.trace)
    for version in range(1, updates + 1):
        found = made[(version - 1) % len(made)]
        write_trace(RunFolder(folder).traces, UpdateTrace(version, {**found.columns, "version": version}))
    return folder


def games(version: int, count: int = 42, *, rated: bool = False) -> tuple[Episode, ...]:
    """Games of three countries; Turkey earns most, and the later phases more than the first.

    With ``rated`` the line-ups' ratings predicted a return.
    """
    rng = np.random.default_rng(version)
    out = []
    for index in range(count):
        role = ROLES[index % 3]
        turns = []
        for place, phase in enumerate(PHASES):
            reward = float(np.float32(rng.normal(0.3 * ROLES.index(role) + 0.2 * place)))
            keys = {"phase": phase, "segment": "opening", "own_centers": int(3 + rng.integers(-1, 3)),
                    "alliance": "none" if place < 2 else ("FRANCE" if index % 4 else "ITALY")}  # fmt: skip
            turns.append(ragged_turn(rng, phase=phase, reward=reward, keys=keys, policy_version=max(0, version - 1)))
        plain = episode_of(tuple(turns), role=role, name=f"b{index // 6:06d}/{index % 6}", reward=sum(
            turn.reward for turn in turns))  # fmt: skip
        facts = {**plain.keys, "start_year": 1901 + index % 3, "lineup": f"l{index % 2}", "policy_opponents": index % 5}
        if rated:
            facts["expected_return"] = 0.1 * (index % 4)
        if index % 3 == 0:
            facts["fork"] = f"f{index % 2}"
        outcome = {**plain.outcome, "centers": float(3 + index % 5)}
        out.append(replace(plain, keys=facts, outcome=outcome))
    return tuple(out)
