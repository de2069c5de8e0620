"""A world as an OpenEnv server, for any client of OpenEnv's.

    python -m cluster.adapters.openenv.server --world diplomacy --set until_year=1902 --port 8010

``reset`` takes ``seed``, ``role`` (whose game it is, and whose reward counts; by default the seed draws it from
``seats``), ``seats`` (that the client plays; by default the role alone) and ``others`` (the bot in all other seats).
Each step answers for one seat: an observation says which seat is asked next and what it sees. Where several seats
decide at once, they are asked one after another, and none sees what another has written before all have.
"""

from __future__ import annotations

import argparse
import json
import uuid
from collections.abc import Callable
from typing import Any

from pydantic import Field

from cluster.adapters.text_game import LONGEST_ANSWER, TextGame, draw_role, open_world
from services.environments.environment import World

try:
    import uvicorn
    from fastapi import FastAPI
    from openenv.core.env_server.http_server import create_fastapi_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, ConcurrencyConfig, EnvironmentMetadata, Observation, State
except ModuleNotFoundError as error:
    message = (
        f"{error.name} is not installed: pip install 'entente[openenv]', in an environment of its own "
        "(cluster/adapters/README.md)"
    )
    if __name__ == "__main__":
        raise SystemExit(f"error: {message}") from None
    raise ModuleNotFoundError(message, name=error.name) from error

SESSIONS = 64  # games at once
SESSION_TIMEOUT_S = 3600.0  # without a request, after which a session ends


class Answer(Action):  # type: ignore[misc]  # OpenEnv's classes have no types here
    """What a seat writes."""

    text: str = Field(max_length=LONGEST_ANSWER, description="The answer of the seat that is asked")


class Asked(Observation):  # type: ignore[misc]
    """Which seat is asked, and what it sees. ``reward`` is what the role has earned since the last observation."""

    seat: str = Field("", description="The seat that is asked; empty once the game is over")
    messages: list[dict[str, str]] = Field(default_factory=list, description="What it sees, as a chat")
    phase: str = Field("", description="The step of the game")
    rewards: dict[str, float] = Field(default_factory=dict, description="Of each played seat, over the game so far")
    defects: list[str] = Field(default_factory=list, description="What was wrong in the last answer")
    outcomes: dict[str, dict[str, float]] = Field(default_factory=dict, description="How the game ended, by seat")


class GameState(State):  # type: ignore[misc]
    """Where a game is."""

    role: str = Field("", description="Whose game it is")
    phase: str = Field("", description="The step of the game")


class WorldEnvironment(Environment):  # type: ignore[misc]
    """Games of a world, one after another."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, world: World) -> None:
        """Play ``world``, which many sessions may share: it keeps nothing of its games."""
        super().__init__()
        self._world = world
        self._game: TextGame | None = None
        self._paid = 0.0
        self._state = GameState()

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        role: str = "",
        seats: tuple[str, ...] | list[str] = (),
        others: str = "",
        **_: Any,
    ) -> Asked:
        """Begin a game. Raises ValueError for a role, seat or bot that ``TextGame`` refuses."""
        drawn = uuid.uuid4().int % 2**31 if seed is None else seed
        role = role or draw_role(self._world, drawn, seats)
        self._game, self._paid = TextGame(self._world, role, drawn, seats=tuple(seats), others=others), 0.0
        self._state = GameState(episode_id=episode_id or str(uuid.uuid4()), role=role, phase=self._game.phase)
        return self._asked([])

    def step(self, action: Answer, timeout_s: float | None = None, **_: Any) -> Asked:  # noqa: ARG002  # never waits
        """Take the answer of the seat that was asked. After the end, and before a reset, it changes nothing."""
        if self._game is None:
            self.reset(seed=0)
        assert self._game is not None
        self._state.step_count += 1
        if not self._game.waiting:
            return self._asked([])
        defects = self._game.answer(self._game.waiting[0], action.text)
        return self._asked([f"{defect.reason}: {defect.text}" for defect in defects])

    @property
    def state(self) -> GameState:
        """The session's number of steps, role and phase."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """The world's name and what it is."""
        return EnvironmentMetadata(
            name=f"entente_{self._world.name}",
            description=(type(self._world).__doc__ or self._world.name).splitlines()[0],
            version="0.1.0",
        )

    def _asked(self, defects: list[str]) -> Asked:
        game = self._game
        assert game is not None
        self._state.phase = game.phase
        seat = game.waiting[0] if game.waiting else ""
        total = game.rewards.get(game.role, 0.0)
        earned, self._paid = total - self._paid, total
        return Asked(
            done=game.is_done,
            reward=earned,
            seat=seat,
            messages=game.messages(seat) if seat else [],
            phase=game.phase,
            rewards=dict(game.rewards),
            defects=defects,
            outcomes={each: dict(values) for each, values in game.outcomes.items()} if game.is_done else {},
        )


def make_app(name: str, settings: dict[str, Any], sessions: int = SESSIONS) -> FastAPI:
    """The server of a world, with the values of its section ``[game]``."""
    world = open_world(name, settings)
    factory: Callable[[], WorldEnvironment] = lambda: WorldEnvironment(world)  # noqa: E731  # OpenEnv wants a callable
    # A client that went away without a word would keep its place for good.
    concurrency = ConcurrencyConfig(max_concurrent_envs=sessions, session_timeout=SESSION_TIMEOUT_S)
    app: FastAPI = create_fastapi_app(
        factory, Answer, Asked, concurrency_config=concurrency, env_name=f"entente_{world.name}", state_cls=GameState
    )
    return app


def main() -> None:
    """Serve a world on this machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="diplomacy", help="diplomacy, word_problems, kuhn, or package.module:CLASS")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a value of [game], as JSON")
    parser.add_argument("--host", default="127.0.0.1", help="there is no password: keep it on this machine")
    parser.add_argument("--port", type=int, default=8010, help="0: a free one, which the first line says")
    parser.add_argument("--sessions", type=int, default=SESSIONS, help="games at once")
    options = parser.parse_args()
    settings = {key: _value(value) for key, _, value in (each.partition("=") for each in options.set)}
    uvicorn.run(make_app(options.world, settings, options.sessions), host=options.host, port=options.port)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # a word without quotes


if __name__ == "__main__":
    main()
