"""One run of a comparison: a method on a task with a seed, within a budget, measured at fixed points."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from cluster.comparison.learning_rates import learning_rate
from cluster.comparison.methods import METHODS, RLLIB_ON_TASK, RLLIB_SETTINGS, Method, discount
from cluster.comparison.sampling import EpisodeSampler, Start
from cluster.runs.traces import write_trace
from grpo_core.checkpoints.atomic_write import write_atomically
from grpo_core.errors import DivergenceError, one_line
from grpo_core.seeds import derive_seed
from grpo_core.small_networks.distributions import Numbered
from grpo_core.small_networks.learner import SmallLearner
from grpo_core.small_networks.networks import Critic, plain_policy, routed_policy
from services.environments.tensor_task import TensorTask
from services.environments.tensor_tasks.catalogue import make_task
from services.environments.tensor_tasks.open_spiel.exploitability import Table
from services.environments.tensor_tasks.open_spiel.spiel_task import SpielTask

_MEASURING = 2**30  # seeds of episodes that measure are from here on, and those that train lie below
_AUDIT_EVERY = 20  # updates
_TRACED_STEPS = 400


Unit = Literal["steps", "episodes"]  # what all methods have equally many of


@dataclass(frozen=True, slots=True)
class Cell:
    """What one run is of; ``settings`` differ from the method's own in a sensitivity study."""

    method: str
    task: str
    seed: int
    budget: int  # of what ``unit`` says
    points: int  # measurements, evenly apart, the last one at the end
    episodes_per_update: int = 32
    settings: Mapping[str, Any] = field(default_factory=dict)
    measured_episodes: int | None = None  # for one measurement; None: as many as the task says
    unit: Unit = "steps"

    @property
    def name(self) -> str:
        """A name for files."""
        task = "".join(letter if letter.isalnum() or letter in "_-" else "-" for letter in self.task)
        return f"{self.method}~{task}~{self.seed}"


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement."""

    method: str
    task: str
    seed: int
    steps: int  # of the task, in training, those after each reset included
    episodes: int
    seconds: float  # of one core in training: what runs beside it does not count
    mean_return: float
    by_variant: Mapping[str, float]
    figures: Mapping[str, float]  # means of what the task tells besides
    exploitability: float | None = None  # of the policy now
    average_exploitability: float | None = None  # of the average of the policies after all updates so far

    @property
    def as_json(self) -> dict[str, Any]:
        """The row of ``results.json``."""
        found = asdict(self)
        found["return"] = found.pop("mean_return")
        return {name: value for name, value in found.items() if value is not None}


class _Training(Protocol):
    steps: int
    episodes: int

    def train(self) -> None: ...
    @property
    def policy(self) -> nn.Module: ...
    @property
    def weights(self) -> Iterable[Tensor]: ...
    def close(self) -> None: ...


def run_cell(cell: Cell, records: Path | None = None) -> Iterator[Row]:
    """Train, and yield a measurement at the start and at each point.

    ``records`` is a folder whose ``audit`` gets audit records; of seed 0, ``traces`` gets what updates learned from.

    Raises:
        TaskError: a package is missing.
        DivergenceError: the method diverged.
    """
    torch.set_num_threads(1)
    method = METHODS[cell.method]
    task = make_task(cell.task)
    training = _begun(cell, method, task, records)
    ruler = _Ruler(cell, task)
    spent = update = 0.0

    def done() -> int:
        return training.steps if cell.unit == "steps" else training.episodes

    try:
        yield ruler.measured(training, spent)
        for point in range(1, cell.points + 1):
            begun = time.process_time()
            # The last update before a measurement is one that comes nearer to its budget than none would.
            while cell.budget * point / cell.points - done() > update / 2:
                before = done()
                _train(training, cell)
                update = done() - before
                paused = time.process_time()
                ruler.follow(training)
                begun += time.process_time() - paused
            spent += time.process_time() - begun
            yield ruler.measured(training, spent)
    finally:
        training.close()
        ruler.close()


def _train(training: _Training, cell: Cell) -> None:
    """Make one update; one that ends with weights that are no numbers, or fails because of them, has diverged."""
    try:
        training.train()
    except DivergenceError:
        raise
    except Exception as error:
        if _is_finite(training):
            raise
        raise DivergenceError(f"the weights of {cell.name} are no numbers: {one_line(error, 200)}") from error
    if not _is_finite(training):
        raise DivergenceError(f"the weights of {cell.name} are no numbers after {training.steps:,} steps")


def _is_finite(training: _Training) -> bool:
    return all(bool(each.isfinite().all()) for each in training.weights)


class _Ruler:
    """Measures policies on the same episodes, which no policy trains on; another seed has others."""

    def __init__(self, cell: Cell, task: TensorTask) -> None:
        self._cell = cell
        self._sampler = EpisodeSampler(task, derive_seed(cell.seed, cell.task, "measured"))
        self._table = Table(task) if isinstance(task, SpielTask) else None
        count = cell.measured_episodes or task.measured_episodes
        first = _MEASURING + cell.seed % 2**20 * count
        self._starts = [Start(str(number), first + number, "measured", count) for number in range(count)]

    def measured(self, training: _Training, seconds: float) -> Row:
        """Play episodes and, where the game's equilibrium is known, compute the distance to it."""
        policy: Any = training.policy
        played = self._sampler.play(policy, self._starts, 0)
        by_variant: defaultdict[str, list[float]] = defaultdict(list)
        for facts, result in zip(played.facts, played.results, strict=True):
            if "variant" in facts:
                by_variant[str(facts["variant"])].append(result)
        last = average = None
        if self._table is not None:
            last = self._table.exploitability(self._table.probabilities(partial(_probabilities, policy)))
            average = self._table.exploitability(self._table.average)
        return Row(
            self._cell.method, self._cell.task, self._cell.seed, training.steps, training.episodes, round(seconds, 2),
            fmean(played.results), {name: fmean(values) for name, values in sorted(by_variant.items())},
            {name: fmean(each[name] for each in played.figures) for name in played.figures[0]}, last, average,
        )  # fmt: skip

    def follow(self, training: _Training) -> None:
        """Add the policy after an update to the average of all, where its exploitability is known."""
        if self._table is not None:
            self._table.add_to_average(self._table.probabilities(partial(_probabilities, training.policy)))

    def close(self) -> None:
        """Close the instances of the task."""
        self._sampler.close()


class _Grouped:
    """Training by the core."""

    def __init__(self, cell: Cell, method: Method, task: TensorTask, records: Path | None) -> None:
        self._cell, self._method, self._records = cell, method, records
        seed = derive_seed(cell.seed, cell.method, cell.task)
        torch.manual_seed(seed % 2**31)
        make = routed_policy if method.network == "routed" else plain_policy
        actions = task.actions
        self._policy = make(task.observation_size, actions.count, are_numbered=actions.are_numbered)
        critic = Critic(task.observation_size) if method.kind == "critic" else None
        probe = task.make()
        grouping = method.grouping_settings(frozenset(probe.reset(0)))
        probe.close()
        rate = learning_rate(method.name, cell.task)
        settings = method.learner_settings({"discount": discount(cell.task), "learning_rate": rate, **cell.settings})
        self._learner = SmallLearner(self._policy, settings, grouping, seed, critic=critic)
        self._sampler = EpisodeSampler(task, seed, mixes_seats=method.mixes_seats)
        self._seeds = np.random.default_rng(seed)
        self.steps = self.episodes = 0

    def train(self) -> None:
        """Play one batch and learn from it."""
        version, alike, count = self._learner.version, self._method.starts_alike, self._cell.episodes_per_update
        first = int(self._seeds.integers(_MEASURING - count))  # consecutive seeds, so that variants take turns
        starts = [
            Start(f"{version}-{number // alike}", first + number // alike, f"{version}-{number // alike}", alike)
            for number in range(count)
        ]
        played = self._sampler.play(self._policy, starts, version)
        is_recorded = self._records is not None and version % _AUDIT_EVERY == 0
        update = self._learner.step(played.batch, _TRACED_STEPS if is_recorded and self._cell.seed == 0 else None)
        self.steps += played.steps
        self.episodes += count
        if self._records is not None and is_recorded:
            record = update.audit(version + 1, self._learner.settings)
            write_atomically(self._records / "audit" / f"{self._cell.name}~{version + 1}.json", json_bytes(record))
            if update.trace is not None:
                write_trace(self._records / "traces" / self._cell.name, update.trace)

    @property
    def policy(self) -> nn.Module:
        """What plays now."""
        return self._policy

    @property
    def weights(self) -> Iterable[Tensor]:
        """The weights of the policy."""
        return self._policy.parameters()

    def close(self) -> None:
        """Close the instances of the task."""
        self._sampler.close()


class _Rllib:
    """Training by RLlib."""

    def __init__(self, cell: Cell, task: TensorTask) -> None:
        from cluster.comparison.rllib.training import SIDE_BY_SIDE, RllibTraining

        settings = {**RLLIB_SETTINGS, **RLLIB_ON_TASK.get(cell.task, {})}
        settings |= {"gamma": discount(cell.task), "lr": learning_rate(cell.method, cell.task), **cell.settings}
        # No update may take more than the steps between two measurements, all environments as many.
        most = cell.budget * (1 if cell.unit == "steps" else task.longest)
        fitting = most // cell.points // SIDE_BY_SIDE * SIDE_BY_SIDE
        batch = max(SIDE_BY_SIDE, min(settings["train_batch_size"], fitting))
        settings["train_batch_size"] = batch
        settings["minibatch_size"] = min(settings["minibatch_size"], batch)
        self._training = RllibTraining(task, cell.seed, settings)

    @property
    def steps(self) -> int:
        return self._training.counted.steps

    @property
    def episodes(self) -> int:
        return self._training.counted.episodes

    def train(self) -> None:
        self._training.train()

    @property
    def policy(self) -> nn.Module:
        return self._training.policy

    @property
    def weights(self) -> Iterable[Tensor]:
        return self._training.weights

    def close(self) -> None:
        self._training.close()


def _begun(cell: Cell, method: Method, task: TensorTask, records: Path | None) -> _Training:
    if method.kind == "rllib":
        return _Rllib(cell, task)  # type: ignore[return-value]  # its counts are properties
    return _Grouped(cell, method, task, records)


def _probabilities(policy: Any, seen: Any, legal: Any) -> Any:
    with torch.no_grad():
        found: Numbered = policy(torch.from_numpy(seen), torch.from_numpy(legal))
    return found.logits_NA.double().softmax(-1).numpy()


def json_bytes(value: Any) -> bytes:
    """One line of JSON."""
    import json

    return json.dumps(value, allow_nan=False).encode()
