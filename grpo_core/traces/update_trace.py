"""One update as a page can show and recompute it: its episodes and turns, what was known before, and some tokens.

Columns are parallel lists in the order of episodes and of their turns. Numbers that were float32 have the fewest
digits that give the same float32 again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grpo_core.advantages.group_baseline import RunningBaseline
from grpo_core.advantages.grouping import CLUSTER_FACTS
from grpo_core.advantages.pipeline import AdvantageBatch, AdvantageMemory
from grpo_core.settings import LearnerSettings
from grpo_core.traces.token_trace import TurnPass
from grpo_core.types import Batch, Turn

TRACE_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class UpdateTrace:
    """JSON values of one update."""

    version: int  # that the update made
    columns: Mapping[str, Any]


def update_trace(
    batch: Batch,
    learner: LearnerSettings,
    advantages: AdvantageBatch,
    running: Mapping[str, RunningBaseline],
    memory: AdvantageMemory,
    steps: Mapping[int, Sequence[int]],
    tokens: Sequence[Mapping[str, Any]],
    *,
    separate_roles: bool = False,
    trained: Sequence[int] | None = None,
) -> UpdateTrace:
    """Return the trace of an update.

    Args:
        batch: its episodes.
        learner: settings of the update; those of the groups come from ``advantages``.
        advantages: what it learned from.
        running: the roles' running baselines before the update.
        memory: the advantages' memory before the update.
        steps: the optimizer steps that each turn had a part in, by index of the turn.
        tokens: the turns whose tokens are kept, as ``turn_tokens`` gives them.
        separate_roles: each role has its own adapter, and a normaliser of its own.
        trained: trained tokens of each turn, where turns do not carry them.
    """
    episodes = batch.episodes
    turns = [turn for episode in episodes for turn in episode.turns]
    version = batch.learner_version + 1
    of_episodes, of_turns = _clusters(advantages, len(episodes), len(turns))
    columns = {
        "schema": TRACE_SCHEMA,
        "version": version,
        "separate_roles": separate_roles,
        "learner": learner.model_dump(mode="json"),
        "grouping": advantages.grouping.model_dump(mode="json"),
        "episodes": {
            "id": [episode.episode_id for episode in episodes],
            "block": [episode.block_id for episode in episodes],
            "role": [episode.role for episode in episodes],
            "task": [episode.task for episode in episodes],
            "reward": [_finite(episode.reward) for episode in episodes],
            "turns": [len(episode.turns) for episode in episodes],
            "facts": {**_columns([episode.keys for episode in episodes]), **of_episodes},
            "parts": _columns([episode.reward_parts for episode in episodes]),
            "outcome": _columns([episode.outcome for episode in episodes]),
        },
        "turns": {
            "phase": [turn.phase for turn in turns],
            "reward": [_finite(turn.reward) for turn in turns],
            "elapsed": [turn.elapsed_phases for turn in turns],
            "version": [turn.policy_version for turn in turns],
            "written": [len(turn.completion_ids) for turn in turns],
            "trained": [int(turn.trained_mask.sum()) for turn in turns] if trained is None else list(trained),
            "steps": [list(steps.get(index, ())) for index in range(len(turns))],
            "facts": {**_columns([turn.keys for turn in turns]), **of_turns},
            "defects": {str(index): list(turn.defects) for index, turn in enumerate(turns) if turn.defects},
        },
        "running": {role: [each.mean, each.variance] for role, each in sorted(running.items())},
        "progress": {name: [each.fast, each.slow, each.variance] for name, each in sorted(memory.progress.items())},
        "returns": shortest(advantages.returns),
        "advantages": shortest(advantages.advantages),
        "tokens": list(tokens),
    }
    return UpdateTrace(version, columns)


def shortest(values: Iterable[float]) -> list[float | None]:
    """Float32 numbers as the shortest decimals that give them again; None for one that is not finite."""
    return [float(str(value)) if np.isfinite(value) else None for value in np.asarray(values, np.float32)]


def turn_tokens(index: int, turn: Turn, passes: Sequence[TurnPass]) -> dict[str, Any]:
    """The tokens of the batch's turn number ``index``, and what its passes say of them."""
    trained = np.flatnonzero(turn.trained_mask)
    return {
        "turn": index,
        "temperature": turn.temperature,
        "prompt": turn.prompt_ids.tolist(),
        "completion": turn.completion_ids.tolist(),
        "trained": trained.tolist(),
        "admissible": np.diff(turn.admissible_offsets).tolist(),  # 0: the whole vocabulary; no list: in all tokens
        "behaviour": shortest(turn.logprobs[trained]),
        "passes": [turn_pass(each) for each in passes],
    }


def turn_pass(found: TurnPass) -> dict[str, Any]:
    """One pass as JSON values."""
    optional = {"proximal": found.proximal, "reference": found.reference}
    return {
        "step": found.step,
        "weight": shortest([found.weight])[0],
        "advantage": shortest([found.advantage])[0],
        "logprobs": shortest(found.logprobs),
        "entropy": shortest(found.entropy),
        **{name: shortest(values) for name, values in optional.items() if values is not None},
    }


def _clusters(
    advantages: AdvantageBatch, episodes: int, turns: int
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """The labels of clusters by name: of episodes, and of turns where those of one episode differ."""
    of_episodes: dict[str, list[Any]] = {}
    of_turns: dict[str, list[Any]] = {}
    for name in CLUSTER_FACTS:
        labels: dict[int, set[Any]] = {}
        for sample in advantages.samples:
            labels.setdefault(sample.episode, set()).add(sample.facts.get(name))
        if all(values == {None} for values in labels.values()):
            continue
        if all(len(values) == 1 for values in labels.values()):
            # An episode without a turn has no sample under returns by turn.
            of_episodes[name] = [next(iter(labels.get(index, {None}))) for index in range(episodes)]
        else:
            assert len(advantages.samples) == turns
            of_turns[name] = [sample.facts.get(name) for sample in advantages.samples]
    return of_episodes, of_turns


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Tables as columns by name; None where a row has no such name."""
    names = sorted({name for row in rows for name in row})
    return {name: [_finite(row.get(name)) for row in rows] for name in names}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
