"""Any turn-taking game of OpenSpiel as a task: seats are players, observations are information states."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from grpo_core.errors import one_line
from grpo_core.types import BoolArray, FloatArray, KeyValue
from services.environments.tensor_task import Action, Actions, TaskError, TensorGame, TensorTask


class SpielTask(TensorTask):
    """A game by OpenSpiel's name, such as ``leduc_poker`` or ``kuhn_poker(players=3)``."""

    random_return = 0.0
    goal = 1.0

    def __init__(self, name: str) -> None:
        """Raises TaskError without OpenSpiel, for an unknown game, and for one that cannot be a task."""
        self.name = name
        self.game = load_game(name)
        kind = self.game.get_type()
        if "SEQUENTIAL" not in str(kind.dynamics):
            raise TaskError(
                f"the game {name} is not played in turns; OpenSpiel's turn_based_simultaneous_game makes it so"
            )
        self._tells_states = bool(kind.provides_information_state_tensor)
        if not (self._tells_states or kind.provides_observation_tensor):
            raise TaskError(f"the game {name} has no tensors of what players see")
        shape = self.game.information_state_tensor_shape if self._tells_states else self.game.observation_tensor_shape
        self.seats = tuple(f"PLAYER_{number}" for number in range(self.game.num_players()))
        self.observation_size = int(np.prod(shape()))
        self.actions = Actions(int(self.game.num_distinct_actions()))
        self.longest = int(self.game.max_game_length())

    def make(self) -> TensorGame:
        """Make an instance."""
        return _SpielGame(self.game, self.seats, self.seen)

    def seen(self, state: Any, player: int) -> FloatArray:
        """What a player sees of a state, shape (observation size,)."""
        tensor = state.information_state_tensor(player) if self._tells_states else state.observation_tensor(player)
        return np.array(tensor, np.float32)


class _SpielGame(TensorGame):
    def __init__(self, game: Any, seats: tuple[str, ...], seen: Any) -> None:
        self._game, self._seats, self._seen = game, seats, seen
        self._state: Any = None
        self._rng = random.Random(0)

    def reset(self, seed: int) -> Mapping[str, KeyValue]:
        """Deal; the seed decides all that chance does in the episode."""
        self._rng = random.Random(seed)
        self._state = self._game.new_initial_state()
        self._deal()
        return {}

    @property
    def to_act(self) -> tuple[str, ...]:
        """The player whose turn it is."""
        if self._state is None or self._state.is_terminal():
            return ()
        return (self._seats[self._state.current_player()],)

    def observation(self, seat: str) -> FloatArray:
        """The information state, or the observation where a game has none."""
        return self._seen(self._state, self._seats.index(seat))  # type: ignore[no-any-return]

    def legal(self, seat: str) -> BoolArray:
        """The legal actions."""
        mask = np.zeros(self._game.num_distinct_actions(), np.bool_)
        mask[self._state.legal_actions(self._seats.index(seat))] = True
        return mask

    def step(self, chosen: Mapping[str, Action]) -> Mapping[str, float]:
        """Take the action; all seats earn what the game pays at this point, most games only at the end."""
        (action,) = chosen.values()
        before = self._paid()
        self._state.apply_action(int(action))
        self._deal()
        return {seat: now - then for seat, now, then in zip(self._seats, self._paid(), before, strict=True)}

    def _paid(self) -> list[float]:
        returns: list[float] = self._state.returns()
        return returns

    def _deal(self) -> None:
        while self._state.is_chance_node():
            outcomes, weights = zip(*self._state.chance_outcomes(), strict=True)
            self._state.apply_action(self._rng.choices(outcomes, weights)[0])


def load_game(name: str) -> Any:
    """OpenSpiel's game of a name; raises TaskError without OpenSpiel or for an unknown game."""
    try:
        import pyspiel
    except ImportError as error:
        raise TaskError(
            f"the game {name} cannot be played: OpenSpiel is not installed; pip install 'entente[open-spiel]'"
        ) from error
    try:
        return pyspiel.load_game(name)
    except pyspiel.SpielError as error:
        raise TaskError(f"OpenSpiel has no game {one_line(repr(name), 100)}: {one_line(error, 160)}") from error
