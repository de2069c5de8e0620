"""Random batches in plain data, and random settings that fit together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from grpo_core.settings import GroupingSettings, LearnerSettings, Normalizer

Plain = dict[str, Any]
T = TypeVar("T")

ROLES = ("AUSTRIA", "ENGLAND", "FRANCE", "TURKEY")
REWARDS = ("normal", "constant", "few values", "equal as float32", "huge", "tiny")
NORMALIZERS: tuple[Normalizer, ...] = ("token", "batch_token", "turn", "episode", "max_completion_length")
LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "rloo")
MODES = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")


@dataclass(frozen=True, slots=True)
class Strategy:
    """One chain of keys and what it needs."""

    keys: tuple[str, ...]
    of_turns: bool = False  # has facts of turns, which an episode's sample lacks
    outcomes: bool = False
    nested: bool = True  # each key is finer than the next, as shrinkage needs


STRATEGIES = (
    Strategy(("country",)),
    Strategy(("country+phase", "country"), of_turns=True),
    Strategy(("country+phase+lineup", "country+phase", "country"), of_turns=True),
    Strategy(("country+phase", "country+segment", "country"), of_turns=True, nested=False),
    Strategy(("country+lineup", "country")),
    Strategy(("lineup + country + task", "country+task")),
    Strategy(("country+alliance", "country"), of_turns=True),
    Strategy(("country+own_centers", "country"), of_turns=True),
    Strategy(("country+fork", "country")),
    Strategy(("country+opening", "country+fork")),  # a group may have a parent that is not placed
    Strategy(("country+lineup+fork",)),
    Strategy(("country+fork+phase", "country+phase"), of_turns=True),
    Strategy(("country+start_year:4", "country+start_year:2")),
    Strategy(("country+difficulty:3+lineup", "country+difficulty:3")),
    Strategy(("country+number", "country")),
    Strategy(("country+text_or_number", "country")),
    Strategy(("country+centers", "country"), outcomes=True),
    Strategy(("country+return", "country"), outcomes=True),
    Strategy(("country+return:4", "country+length", "country"), outcomes=True, nested=False),
    Strategy(("country+own_centers:3+solo", "country+solo"), of_turns=True, outcomes=True),
)
CLUSTERED = (
    Strategy(("country+auto", "country")),
    Strategy(("country+adaptive", "country")),
    Strategy(("country+dirichlet", "country")),
)


def one_of(rng: np.random.Generator, options: Sequence[T]) -> T:
    """One of the options, each equally likely."""
    return options[int(rng.integers(len(options)))]


def random_learner(rng: np.random.Generator) -> LearnerSettings:
    """Settings of returns and losses that fit together."""
    loss = one_of(rng, LOSS_TYPES)
    ranges = (1.0, 2.0, 5.0) if loss == "cispo" else (0.28, 4e-4, 1.0)
    values: Plain = {
        "returns": one_of(rng, ("episode", "per_phase", "segment")),
        "discount": one_of(rng, (0.85, 0.5, 1.0, 0.993)),
        "loss_type": loss,
        "importance_sampling_level": "token" if loss == "rloo" else one_of(rng, ("token", "sequence")),
        "epsilon": one_of(rng, (0.2, 3e-4, 0.9)),
        "epsilon_high": one_of(rng, ranges),
        "delta": None if loss in ("cispo", "rloo") else one_of(rng, (None, 2.5, 10.0)),
        "normalizer": one_of(rng, ("auto", *NORMALIZERS)),
        "max_completion_length": int(rng.integers(1, 300)),
        "entropy_coef": one_of(rng, (0.0, 0.01, 0.7)),
        "beta": one_of(rng, (0.0, 0.04, 1.5)),
        "off_policy_mask_threshold": one_of(rng, (None, 0.05, 1.0)),
        "decoupled": bool(rng.random() < 0.5),
    }
    estimator = one_of(rng, ("k1", "k2", "k3"))
    corrected = {"k1": True, "k2": False, "k3": bool(rng.random() < 0.5)}[estimator]
    values |= {"kl_estimator": estimator, "use_bias_correction_kl": corrected}
    if values["decoupled"]:
        mode = one_of(rng, MODES[2:] if loss == "rloo" else (None, *MODES))
        low = None if mode is None else one_of(rng, (None, 0.0, 0.6))
        high = one_of(rng, (1.0, 3.0) if low is None else (None, 1.0, 3.0))
        values |= {
            "importance_sampling_mode": mode,
            "importance_sampling_clip_min": low,
            "importance_sampling_clip_max": high,
        }
    return LearnerSettings(**values)


def random_grouping(rng: np.random.Generator, strategy: Strategy, role_name: str) -> GroupingSettings:
    """Settings of groups with a strategy's keys."""
    weight_keys = ("country", "country+lineup", "country+fork", "country+text_or_number", "country+start_year:2")
    found = GroupingSettings(
        keys=tuple(key.replace("country", role_name) for key in strategy.keys),
        role_name=role_name,
        min_group_size=int(rng.integers(2, 6)),
        scale_rewards=one_of(rng, ("group", "batch", "none")),
        baseline=one_of(rng, ("mean", "leave_one_out")),
        shrinkage=strategy.nested and bool(rng.random() < 0.4),
        allow_outcome_keys=strategy.outcomes or bool(rng.random() < 0.1),
        opponent_adjusted=bool(rng.random() < 0.2),
        group_weights=one_of(rng, ("none", "balanced", "performance", "adaptive")),
        weight_key=one_of(rng, weight_keys).replace("country", role_name),
        min_group_weight=one_of(rng, (0.5, 0.05, 1.0)),
        max_group_weight=one_of(rng, (2.0, 1.0, 7.5)),
        n_groups=int(rng.integers(1, 4)),
        cluster_features=("start_year", "difficulty"),
    )
    # Less than the settings allow, so that groups of one episode decide, too.
    return found.model_copy(update={"min_group_size": 1}) if rng.random() < 0.1 else found


def random_batch(rng: np.random.Generator, role_name: str) -> Plain:
    """A batch as plain data: episodes of few or many games, some without turns and many turns without tokens."""
    count = 1 if rng.random() < 0.06 else int(rng.integers(2, one_of(rng, (6, 20, 50, 120))))
    turns = rng.integers(0 if rng.random() < 0.2 else 1, one_of(rng, (2, 4, 10)), count)
    turns[0] = max(turns[0], 1)  # a batch has a sample
    total = int(turns.sum())
    rewards = one_of(rng, REWARDS)
    position = np.concatenate([np.arange(each) for each in turns])
    roles = [one_of(rng, ROLES[: int(rng.integers(1, 5))]) for _ in range(count)]
    openings = [one_of(rng, ("standard", "saved", "other")) for _ in range(count)]
    lineups = [f"l{each}" for each in rng.integers(0, 3, count)]
    names = [*ROLES, *(f"{role}+{each}" for role in ROLES for each in ("l0", "l1", "none", "1", "0"))]
    of_episodes = {
        "lineup": lineups,
        "start_year": rng.integers(1901, 1907, count).tolist(),
        "difficulty": np.round(rng.normal(size=count), int(rng.integers(0, 9))).tolist(),
        "number": [one_of(rng, (0.1, 1.0, -0.0, 1.5e-05, -3e-07, 2.5e-101, 1e22, 0.00012, 7)) for _ in range(count)],
        "text_or_number": [one_of(rng, (1, "1", "a", "a+b", 10**22)) for _ in range(count)],
        "opening": openings,
        "fork": [{"standard": None, "saved": "none", "other": 3}[opening] for opening in openings],
        "task": [one_of(rng, (None, "openings")) for _ in range(count)],
        "expected_return": rng.normal(size=count).tolist(),
    }
    of_turns = {
        "phase": [f"S{1901 + place}M" for place in position.tolist()],
        "segment": [("opening", "midgame", "endgame")[place] for place in np.minimum(position // 3, 2).tolist()],
        "own_centers": rng.integers(0, 5, total).tolist(),
        "alliance": [one_of(rng, ("none", "ENGLAND", "TURKEY")) for _ in range(total)],
        "start_year": rng.integers(0, 2, total).tolist(),  # the episode's fact wins
        "seldom": [one_of(rng, (None, "now")) for _ in range(total)],
    }
    if rng.random() < 0.2:
        of_turns["segment"] = rng.permutation(of_turns["segment"]).tolist()
    outcome = {
        "centers": rng.integers(0, 5, count).tolist(),
        "solo": (rng.random(count) < 0.3).astype(float).tolist(),
        "length": [99] * count,  # the number of turns wins
        "no_key": [1] * count,
    }
    own_reward = _rewards(rng, rewards, count)
    running = {role: [float(rng.normal()), one_of(rng, (0.0, 0.2, 4.0))] for role in ROLES if rng.random() < 0.6}
    if rewards == "constant" and rng.random() < 0.5:
        running = {role: [float(np.float32(own_reward[0])), 0.3] for role in ROLES}
    return {
        "role_name": role_name,
        "episodes": {
            "role": roles,
            "task": [one_of(rng, ("diplomacy", "solo")) for _ in range(count)],
            "reward": own_reward,
            "turns": turns.tolist(),
            "facts": of_episodes,
            "outcome": outcome,
        },
        "turns": {
            "reward": _rewards(rng, rewards, total),
            "elapsed": rng.integers(0, 4, total).tolist(),
            "facts": of_turns,
            "trained": (rng.integers(0, 13, total) * (rng.random(total) < 0.7)).tolist(),
        },
        "running": running,
        "progress": {name: _progress(rng) for name in names if rng.random() < 0.6},
    }


def _rewards(rng: np.random.Generator, kind: str, count: int) -> list[float]:
    normal = rng.normal(size=count)
    found = {
        "normal": normal,
        "constant": np.full(count, 0.1),
        "few values": rng.choice([0.0, 0.0, 1.0, 1 / 7], count),
        "equal as float32": 1 / 3 + 1e-10 * normal,
        "huge": 1e25 * normal,
        "tiny": 1e-25 * normal,
    }
    return [float(value) for value in found[kind]]


def _progress(rng: np.random.Generator) -> list[float]:
    slow = one_of(rng, (0.25, float(rng.normal())))
    return [
        one_of(rng, (slow, slow + 1e-8, float(rng.normal()))),
        slow,
        one_of(rng, (0.0, 0.5, float(rng.exponential()))),
    ]
