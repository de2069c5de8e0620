"""What ``entente compare`` runs under each name: tasks with their budgets, methods and seeds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cluster.comparison.cell import Cell, Unit
from cluster.comparison.methods import METHODS
from cluster.errors import RunError
from grpo_core.errors import one_line

GROUPED = tuple(name for name in METHODS if name != "grpo_no_seats")
ON_SEVERAL_SEATS = ("rllib_ppo", "ppo_grouped", "grpo_batch", "grpo_no_seats", "grpo_time")


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """One task, how long each run is, and which methods run."""

    task: str
    budget: int  # of what ``unit`` says
    methods: tuple[str, ...] = GROUPED
    seeds: int = 10
    episodes_per_update: int = 32
    unit: Unit = "steps"
    learning_rate: float | None = None  # None: each method's own

    def settings(self, method: str) -> dict[str, float]:
        """What a run of ``method`` has in place of its own settings."""
        name = "lr" if METHODS[method].kind == "rllib" else "learning_rate"
        return {} if self.learning_rate is None else {name: self.learning_rate}


@dataclass(frozen=True, slots=True)
class Plan:
    """All of a comparison."""

    name: str
    tasks: tuple[TaskPlan, ...]
    points: int
    measured_episodes: int | None = None  # for one measurement; None: as many as the task says
    first_seed: int = 0

    def cells(self, facts: Mapping[str, frozenset[str]]) -> Iterator[Cell]:
        """Every run, seed by seed, so that an unfinished comparison has all methods; ``facts`` are by task."""
        for place in range(max(plan.seeds for plan in self.tasks)):
            for plan in self.tasks:
                if place >= plan.seeds:
                    continue
                for method in plan.methods:
                    if not METHODS[method].needs_fact or METHODS[method].needs_fact in facts[plan.task]:
                        yield Cell(
                            method, plan.task, self.first_seed + place, plan.budget, self.points,
                            plan.episodes_per_update, plan.settings(method),
                            measured_episodes=self.measured_episodes, unit=plan.unit,
                        )  # fmt: skip

    def only(
        self,
        methods: Collection[str],
        tasks: Collection[str],
        seeds: int | None,
        steps: int | None = None,
        episodes_per_update: int | None = None,
        learning_rate: float | None = None,
        first_seed: int = 0,
    ) -> Plan:
        """The part of it with these methods and tasks (none named: all), with its own numbers where None is given.

        Raises RunError for a name that it does not have, and for a budget of tasks that count different things.
        """
        _check("method", methods, METHODS)
        _check("task", tasks, [plan.task for plan in self.tasks])
        kept = []
        for plan in self.tasks:
            if tasks and plan.task not in tasks:
                continue
            chosen = tuple(name for name in (methods or plan.methods) if name in METHODS)
            kept.append(
                replace(
                    plan, methods=chosen, seeds=seeds or plan.seeds, budget=steps or plan.budget,
                    episodes_per_update=episodes_per_update or plan.episodes_per_update,
                    learning_rate=learning_rate or plan.learning_rate,
                )
            )  # fmt: skip
        if steps and len({plan.unit for plan in kept}) > 1:
            raise RunError(
                "--steps counts games in Diplomacy and steps elsewhere: name --tasks of one of the two kinds"
            )
        return replace(self, tasks=tuple(kept), first_seed=first_seed)


def _check(what: str, named: Collection[str], known: Collection[str]) -> None:
    for name in named:
        if name not in known:
            raise RunError(f"there is no {what} {one_line(repr(name), 60)} here; it is one of {', '.join(known)}")


_GAMES = ("kuhn_poker", "leduc_poker", "kuhn_poker(players=3)")
_DIPLOMACY = ("rllib_ppo", "ppo_grouped", "grpo_time")
_LUNAR = ("rllib_ppo", "ppo_grouped", "grpo_time")
_FEW = ("rllib_ppo", "ppo_grouped", "grpo_batch", "grpo_time")
_CONTINUOUS = ("rllib_ppo", "ppo_grouped", "reinforce_time", "grpo_batch", "grpo_start", "grpo_time")


def _games(steps: Sequence[int], seeds: int) -> tuple[TaskPlan, ...]:
    return tuple(
        TaskPlan(name, count, ON_SEVERAL_SEATS, seeds, episodes_per_update=128)
        for name, count in zip(_GAMES, steps, strict=True)
    )


PLANS: Mapping[str, Plan] = {
    plan.name: plan
    for plan in (
        Plan(
            "smoke",
            (
                TaskPlan("cartpole", 2_000, seeds=1),
                TaskPlan("cartpole_family", 2_000, seeds=1),
                TaskPlan("lunar_lander", 500, _LUNAR, 1, 4),
                TaskPlan("inverted_pendulum", 500, _CONTINUOUS, 1),
                TaskPlan("half_cheetah", 500, _CONTINUOUS, 1, 4),
                TaskPlan("pong", 100, _CONTINUOUS, 1, 4),
                TaskPlan("breakout", 100, _CONTINUOUS, 1, 4),
                TaskPlan("navigation", 500, ON_SEVERAL_SEATS, 1),
                TaskPlan("diplomacy_random", 7, _DIPLOMACY, 1, 7, "episodes"),
                TaskPlan("diplomacy_dumbbot", 7, _DIPLOMACY, 1, 7, "episodes"),
                *_games((500, 500, 500), 1),
            ),
            points=1,
            measured_episodes=2,
        ),
        Plan(
            "study",
            (
                TaskPlan("cartpole", 150_000),
                TaskPlan("cartpole_family", 150_000),
                TaskPlan("lunar_lander", 1_000_000, _LUNAR, 5, 16),
                TaskPlan("navigation", 30_000, ON_SEVERAL_SEATS),
                TaskPlan("inverted_pendulum", 100_000, _CONTINUOUS),
                TaskPlan("half_cheetah", 200_000, _FEW, 10, 4),
                TaskPlan("pong", 100_000, _FEW, 5, 4),
                TaskPlan("breakout", 60_000, _FEW, 5, 8),
                TaskPlan("diplomacy_random", 2_520, _DIPLOMACY, 5, 56, "episodes"),
                TaskPlan("diplomacy_dumbbot", 1_680, _DIPLOMACY, 5, 56, "episodes"),
                *_games((60_000, 60_000, 60_000), 10),
            ),
            points=10,
        ),
    )
}
