"""Episodes of a task, played by a small policy in several instances at once. Axes as in ``small_networks.learner``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grpo_core.small_networks.learner import SmallBatch
from grpo_core.small_networks.networks import SmallPolicy
from grpo_core.types import Episode, FloatArray, KeyValue, Turn
from services.environments.tensor_task import Action, Actions, TensorGame, TensorTask

ROLE_NAME = "seat"
MIXED = "ANY"  # the role of all seats that are not told apart
_FEATURES = 16  # numbers of the first observation that clusters may be made from
_THOUSANDTHS = 1000
_NO_IDS, _NO_NUMBERS, _NO_FLAGS = np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.bool_)


@dataclass(frozen=True, slots=True)
class Start:
    """Where one episode begins; episodes with the same seed begin alike."""

    name: str  # the fact ``start``
    seed: int
    block: str
    block_size: int


@dataclass(slots=True)
class _Seat:
    """What one seat of one episode saw, chose and earned."""

    rows: list[int] = field(default_factory=list)  # of the batch's arrays, which are sorted afterwards
    earned: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Playing:
    game: TensorGame
    start: Start
    facts: Mapping[str, KeyValue]
    seats: dict[str, _Seat]


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """A batch, and what it cost and brought."""

    batch: SmallBatch
    steps: int  # of the task, all its seats at once
    results: tuple[float, ...]  # of each episode: the mean over its seats, as the task counts it
    facts: tuple[Mapping[str, KeyValue], ...]  # of each episode's start
    figures: tuple[Mapping[str, float], ...]  # what the task tells of each episode besides


class EpisodeSampler:
    """Plays episodes side by side: one forward pass serves all that wait for a choice."""

    def __init__(self, task: TensorTask, seed: int, *, mixes_seats: bool = False) -> None:
        """``seed`` is of the policy's choices; with ``mixes_seats`` all seats are one role."""
        self._task = task
        self._role = MIXED if mixes_seats else None
        self._games: list[TensorGame] = []
        self._generator = torch.Generator().manual_seed(seed)
        self._phases: list[dict[str, KeyValue]] = []  # by number of the step: facts shared by all turns

    def play(self, policy: SmallPolicy, starts: Sequence[Start], version: int) -> Played:
        """Play an episode from each start with the weights of ``version``."""
        while len(self._games) < len(starts):
            self._games.append(self._task.make())
        playing = [self._begin(game, start) for game, start in zip(self._games, starts, strict=False)]
        arrays = _Arrays()
        steps = 0
        waiting = [each for each in playing if each.game.to_act]
        while waiting:
            asked = [(each, seat) for each in waiting for seat in each.game.to_act]
            chosen = self._choose(policy, asked, arrays)
            place = 0
            for each in waiting:
                actions: dict[str, Action] = {}
                for seat in each.game.to_act:
                    actions[seat] = chosen[place]
                    place += 1
                for seat, reward in each.game.step(actions).items():
                    if earned := each.seats[seat].earned:  # what it earns before it first chooses is not its doing
                        earned[-1] += reward
                steps += 1
            waiting = [each for each in waiting if each.game.to_act]
        return self._collected(playing, arrays, steps, version)

    def close(self) -> None:
        """Close the instances."""
        for game in self._games:
            game.close()
        self._games.clear()

    def _begin(self, game: TensorGame, start: Start) -> _Playing:
        facts = dict(game.reset(start.seed))
        return _Playing(game, start, facts, {seat: _Seat() for seat in self._task.seats})

    def _choose(self, policy: SmallPolicy, asked: Sequence[tuple[_Playing, str]], arrays: _Arrays) -> list[Any]:
        seen_ND = np.stack([each.game.observation(seat) for each, seat in asked])
        masks = [each.game.legal(seat) for each, seat in asked]
        legal = None if masks[0] is None else np.stack([mask for mask in masks if mask is not None])
        with torch.no_grad():
            found = policy(torch.from_numpy(seen_ND), None if legal is None else torch.from_numpy(legal))
            actions = found.sample(self._generator)
            logprobs_N = found.logprobs(actions)
        first = arrays.add(seen_ND, legal, actions, logprobs_N)
        for number, (each, seat) in enumerate(asked):
            record = each.seats[seat]
            record.rows.append(first + number)
            record.earned.append(0.0)
        return carried_out(actions, self._task.actions)

    def _collected(self, playing: Sequence[_Playing], arrays: _Arrays, steps: int, version: int) -> Played:
        episodes: list[Episode] = []
        order: list[int] = []
        last, cut_off, results = [], [], []
        blank = np.zeros(self._task.observation_size, np.float32)
        for number, each in enumerate(playing):
            returns = []
            for seat, record in each.seats.items():
                if not record.rows:
                    continue
                episodes.append(self._episode(each, seat, record, arrays, f"{version}/{number}/{seat}", version))
                order += record.rows
                cut_off.append(each.game.was_cut_off)
                last.append(each.game.observation(seat) if cut_off[-1] else blank)
                returns.append(sum(record.earned))
            results.append(self._task.result(sum(returns) / len(returns), each.facts))
        batch = arrays.batch(episodes, order, np.stack(last), cut_off)
        return Played(
            batch, steps, tuple(results), tuple(each.facts for each in playing),
            tuple(each.game.figures for each in playing),
        )  # fmt: skip

    def _episode(self, each: _Playing, seat: str, record: _Seat, arrays: _Arrays, name: str, version: int) -> Episode:
        seen = arrays.observation(record.rows[0])[:_FEATURES]
        numbers = {f"seen_{index}": round(float(value) * _THOUSANDTHS) for index, value in enumerate(seen)}
        turns = tuple(self._turn(place, reward, version) for place, reward in enumerate(record.earned))
        total = sum(record.earned)
        return Episode(
            episode_id=name,
            task=self._task.name,
            role=self._role or seat,
            block_id=each.start.block,
            block_size=each.start.block_size,
            keys={**each.facts, **numbers, "start": each.start.name},
            turns=turns,
            reward=total,
            reward_parts={"task": total},
            outcome={},
            seed=each.start.seed,
        )

    def _turn(self, place: int, reward: float, version: int) -> Turn:
        while len(self._phases) <= place:
            self._phases.append({"phase": len(self._phases)})
        return Turn(
            _NO_IDS, _NO_IDS, _NO_NUMBERS, _NO_FLAGS, _NO_IDS, _NO_IDS, version, 1.0, str(place),
            reward=reward, keys=self._phases[place],
        )  # fmt: skip


class _Arrays:
    """What was seen and chosen, in the sequence in which it was; ``batch`` puts it in episode order."""

    def __init__(self) -> None:
        self._seen: list[FloatArray] = []
        self._legal: list[Any] = []
        self._actions: list[Tensor] = []
        self._logprobs: list[Tensor] = []
        self._flat: list[FloatArray] = []
        self._rows = 0

    def add(self, seen_ND: FloatArray, legal: Any, actions: Tensor, logprobs_N: Tensor) -> int:
        """Add rows; returns the number of the first."""
        first = self._rows
        self._seen.append(seen_ND)
        self._flat.extend(seen_ND)
        if legal is not None:
            self._legal.append(legal)
        self._actions.append(actions)
        self._logprobs.append(logprobs_N)
        self._rows += len(seen_ND)
        return first

    def observation(self, row: int) -> FloatArray:
        return self._flat[row]

    def batch(
        self, episodes: Sequence[Episode], order: Sequence[int], last: FloatArray, cut_off: Sequence[bool]
    ) -> SmallBatch:
        index = torch.as_tensor(order, dtype=torch.int64)
        return SmallBatch(
            tuple(episodes),
            torch.from_numpy(np.concatenate(self._seen))[index],
            torch.from_numpy(np.concatenate(self._legal))[index] if self._legal else None,
            torch.cat(self._actions)[index],
            torch.cat(self._logprobs)[index],
            torch.from_numpy(last),
            torch.tensor(cut_off),
        )


def carried_out(actions: Tensor, kind: Actions) -> list[Any]:
    """Actions as a task takes them: numbers of actions, or vectors within its bounds."""
    if kind.are_numbered:
        return actions.tolist()
    bounded = np.clip(actions.numpy(), np.asarray(kind.low, np.float32), np.asarray(kind.high, np.float32))
    return list(bounded.astype(np.float32))
