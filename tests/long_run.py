"""A run folder of many updates, made without training: records, measurements and line-ups as a run writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from grpo_core.training.distributions import distributions
from services.environments.diplomacy.position import POWERS

PHASES = tuple(f"{season}{year}M" for year in range(1901, 1909) for season in "SF")
LEVELS = ("country+phase", "country")


def long_run(folder: Path, updates: int, episodes: int = 56, seed: int = 0) -> Path:
    """Write a run of Diplomacy with ``episodes`` an update; returns its folder."""
    rng = np.random.default_rng(seed)
    (folder / "audit").mkdir(parents=True)
    for update in range(1, updates + 1):
        record = audit(rng, update, episodes)
        (folder / "audit" / f"{update:06d}.json").write_text(json.dumps(record))
    lines = [
        {"update": update, "time": 1e9 + update, "metrics": metrics(rng, update)} for update in range(1, updates + 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    drawn = [
        {"index": number, "power": "FRANCE", "version": number // 7, "strategy": "weighted", "lineup": "0f",
         "probabilities": "0f",
         "members": dict.fromkeys(POWERS[1:], f"policy/v{number // 70}" if number % 3 else "bot/dumbbot")}
        for number in range(7 * updates)
    ]  # fmt: skip
    (folder / "lineups.jsonl").write_text("".join(json.dumps(each) + "\n" for each in drawn))
    (folder / "summary.json").write_text(
        json.dumps({"run": "long", "updates": updates, "evaluations": evaluations(updates)})
    )
    (folder / "config.toml").write_text("[run]\nseed = 1\n")
    return folder


def audit(rng: np.random.Generator, update: int, episodes: int) -> dict[str, Any]:
    """One record; returns rise with the updates, and differ by power."""
    roles = [POWERS[number % len(POWERS)] for number in range(episodes)]
    sample_roles = [role for role in roles for _ in PHASES]
    level = np.array([POWERS.index(role) / 5 + update / 500 for role in sample_roles])
    returns = level + rng.normal(size=len(sample_roles))
    size = episodes // len(POWERS)
    groups = [
        {"key": [power, phase], "level": LEVELS[0], "size": size, "judged": size,
         "mean": float(rng.normal(POWERS.index(power) / 5 + update / 500)), "std": float(rng.uniform(0.5, 1.5)),
         "zero_variance": bool(rng.random() < 0.1)}
        for power in POWERS for phase in PHASES
    ]  # fmt: skip
    return {
        "schema": 3, "version": update, "keys": list(LEVELS), "role_name": "country", "groups": groups,
        "group_weights": {power: float(rng.uniform(0.5, 2)) for power in POWERS},
        "metrics": {"zero_variance_fraction": 0.1, "fallback_fraction": 0.05, "running_baseline_fraction": 0.0},
        "distributions": distributions(sample_roles, returns, returns - level),
        "episodes": [f"b{update:06d}/{number}" for number in range(episodes)], "roles": roles,
        "rewards": rng.normal(size=episodes).tolist(), "lengths": [16.0] * episodes,
        "outcomes": {"centers": rng.integers(0, 17, episodes).tolist(), "win_rate": [0.0] * episodes},
    }  # fmt: skip


def metrics(rng: np.random.Generator, update: int) -> dict[str, Any]:
    """One line of measurements."""
    found: dict[str, Any] = {
        "entente_loss": float(rng.normal()), "entente_entropy": 1 / update, "entente_kl": float(rng.random()),
        "entente_games_total": update * 56, "entente_run_seconds_total": update * 30.0,
        "entente_zero_variance_fraction": 0.1, "entente_episode_reward": float(rng.normal()),
        "entente_population_size{state=active}": update // 10, "entente_population_size{state=retired}": 0,
    }  # fmt: skip
    for key in LEVELS:
        found |= {f"entente_groups{{level={key}}}": 112, f"entente_group_size{{level={key}}}": 8.0}
    for player in ("learner", "bot/dumbbot", *(f"policy/v{number}" for number in range(0, update, 50))):
        found[f"entente_rating{{player={player}}}"] = float(1000 + update + rng.normal())
        found[f"entente_rating_deviation{{player={player}}}"] = 20.0
        found[f"entente_opponent_score{{opponent={player}}}"] = float(rng.random())
    for power in POWERS:
        found |= {
            f"entente_batch_centers{{country={power}}}": float(rng.uniform(2, 9)),
            f"entente_country_reward{{country={power}}}": float(rng.normal()),
            f"entente_country_reward_std{{country={power}}}": 1.0,
            f"entente_country_phases{{country={power}}}": 16.0,
            f"entente_country_centers{{country={power}}}": 5.0,
            f"entente_country_episodes_total{{country={power}}}": update * 8,
        }
    return found


def evaluations(updates: int) -> list[dict[str, Any]]:
    """Evaluations every fiftieth update."""
    rows = []
    for update in range(0, updates + 1, 50):
        cell = {"games": 20, "mean_centers": 4 + update / 100, "mean_centers_ci95": [3.0, 12.0], "win_rate": 0.0}
        rows.append({"checkpoint": f"checkpoints/{update}", "label": f"v{update}", "against": "dumbbot",
                     **cell, "by_country": dict.fromkeys(POWERS, cell)})  # fmt: skip
    return rows
