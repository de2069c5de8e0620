"""A task as PettingZoo's ``ParallelEnv``: all seats choose in every step, and those that wait have one choice.

    from services.environments.diplomacy.unit_choices.task import UnitChoices
    from services.environments.tensor_tasks.pettingzoo.parallel_task import ParallelTask

    environment = ParallelTask(UnitChoices(until_year=1903))
    observations, infos = environment.reset(seed=0)

An observation has the vector, ``observation``, and ``action_mask`` with 1 for what may be chosen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from services.environments.tensor_task import TensorTask, legal_or_first

try:
    import gymnasium
    from pettingzoo import ParallelEnv
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{error.name} is not installed: pip install 'entente[pettingzoo]'", name=error.name
    ) from error

WAIT = 0  # what a seat chooses whose turn it is not; it does nothing
_SEED_LIMIT = 2**31


class ParallelTask(ParallelEnv):  # type: ignore[misc]  # PettingZoo has no types
    """An instance of a task with numbered actions."""

    metadata = {"name": "entente_task", "render_modes": []}  # noqa: RUF012  # as PettingZoo declares it

    def __init__(self, task: TensorTask) -> None:
        """Raises ValueError for a task whose actions are vectors, and TaskError if a package is missing."""
        if not task.actions.are_numbered:
            raise ValueError(f"{task.name} has actions that are vectors, which have no mask")
        self._task, self._game = task, task.make()
        self._seeds = np.random.default_rng()
        self.possible_agents = list(task.seats)
        self.agents: list[str] = []
        count = task.actions.count
        self._space = gymnasium.spaces.Dict({
            "observation": gymnasium.spaces.Box(-np.inf, np.inf, (task.observation_size,), np.float32),
            "action_mask": gymnasium.spaces.Box(0, 1, (count,), np.int8),
        })  # fmt: skip
        self._actions: dict[str, gymnasium.Space[Any]] = {seat: gymnasium.spaces.Discrete(count) for seat in task.seats}

    def observation_space(self, agent: str) -> gymnasium.Space[Any]:  # noqa: ARG002
        """The same for all seats."""
        return self._space

    def action_space(self, agent: str) -> gymnasium.Space[Any]:
        """The numbers of all actions, legal or not."""
        return self._actions[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:  # noqa: ARG002
        """Begin an episode."""
        if seed is not None:
            self._seeds = np.random.default_rng(seed)
        self._game.reset(int(self._seeds.integers(_SEED_LIMIT)))
        self.agents = list(self.possible_agents)
        return self._seen(), {seat: {} for seat in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Carry out the actions of the seats whose turn it is.

        One that its mask forbids counts as the first that it does not, which in Diplomacy is to hold; the seat's info
        then has ``illegal``.
        """
        infos: dict[str, dict[str, Any]] = {seat: {} for seat in self.agents}
        chosen = {}
        for seat in self._game.to_act:
            chosen[seat], is_legal = legal_or_first(self._game, seat, int(actions[seat]))
            if not is_legal:
                infos[seat]["illegal"] = True
        earned = self._game.step(chosen)
        over, cut_off = not self._game.to_act, self._game.was_cut_off
        seats = self.agents
        found = (
            self._seen(),
            {seat: float(earned.get(seat, 0.0)) for seat in seats},
            dict.fromkeys(seats, over and not cut_off),
            dict.fromkeys(seats, cut_off),
            infos,
        )
        if over:
            self.agents = []
        return found

    def close(self) -> None:
        """Close the instance."""
        self._game.close()

    def _seen(self) -> dict[str, Any]:
        acting = self._game.to_act
        found = {}
        for seat in self.agents:
            mask = np.zeros(self._task.actions.count, np.int8)
            if seat in acting:
                legal = self._game.legal(seat)
                mask[:] = 1 if legal is None else legal
            else:
                mask[WAIT] = 1
            found[seat] = {"observation": self._game.observation(seat), "action_mask": mask}
        return found
