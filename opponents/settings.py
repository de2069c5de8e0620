"""Settings of the table: who the learner plays against."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Literal

from pydantic import Field, field_validator

from grpo_core.settings import Settings
from services.inference.endpoint import EndpointSettings

# What is known before a game, and before a turn of it: the facts that group keys can be made of.
EPISODE_FACTS = ("country", "lineup")
TURN_FACTS = ("phase", "segment", "own_centers", "alliance")

REMOTE_PREFIX = "remote:"  # before a remote player's name, where bots and folders are named too
_REMOTE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class RemoteSettings(EndpointSettings):
    """A chat model behind an OpenAI-compatible endpoint that plays as remote:NAME."""

    on_failure: Literal["raise", "hold"] = Field(
        "raise",
        description="When a call failed after all retries; raise: the game and the run stop with the reason; hold: all "
        "units hold (or disband) in that phase, which is counted",
    )

    @property
    def identity(self) -> str:
        """What decides how it plays. The same model at another address is the same player."""
        played_by = self.model_dump(include={"model", "temperature", "max_completion_length", "structured"})
        return json.dumps(played_by, sort_keys=True)


class OpponentsSettings(Settings):
    """The population and how line-ups are drawn from it."""

    members: dict[str, float] = Field(
        default_factory=lambda: {"random": 1.0},
        description="Members of the population and how often each is drawn: hold, random, greedy, dumbbot, remote:NAME",
    )
    snapshot_every: int = Field(
        0, ge=0, description="Updates between frozen snapshots of the learner in the population; 0: none"
    )
    max_snapshots: int = Field(8, ge=1, description="Newest snapshots that may be drawn; older ones stay on file")
    remotes: dict[str, RemoteSettings] = Field(
        default_factory=dict, description="Chat models behind OpenAI-compatible endpoints, a table each"
    )

    @field_validator("remotes")
    @classmethod
    def _names_are_plain(cls, value: dict[str, RemoteSettings]) -> dict[str, RemoteSettings]:
        for name in value:
            if _REMOTE_NAME.fullmatch(name) is None:
                raise ValueError(f"a remote's name is letters, digits, - and _, not {name!r}")
        return value


def unknown_remote(name: str, known: Iterable[str]) -> str:
    """What to say of a remote that the configuration does not describe."""
    there_are = ", ".join(sorted(known))
    return f"no remote is called {name!r}; " + (
        f"there are {there_are}"
        if there_are
        else f"describe it in a table [opponents.remotes.{name}] of the config (play and evaluate take --config FILE)"
    )
