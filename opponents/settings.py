"""The settings of ``[opponents]``: the population, and how line-ups are drawn from it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from grpo_core.section import Settings, Texts
from opponents.champion.shipped import CHAMPION
from services.inference.chat_endpoint.settings import EndpointSettings

MatchmakingStrategy = Literal[
    "weighted", "uniform", "latest", "pfsp_hard", "pfsp_variance", "rating_window", "curriculum"
]

Named = TypeVar("Named")

LARGEST_WEIGHT = 1e6  # of a member; sums and products of weights stay finite
REMOTE_PREFIX = "remote:"  # marks the name of a chat player where bots and folders can be named too
PLAYER_PREFIX = "player:"  # marks the name of a saved policy among the members
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class ChatPlayerSettings(EndpointSettings):
    """A chat model behind an OpenAI-compatible endpoint that plays as remote:NAME."""

    on_failure: Literal["raise", "hold"] = Field(
        "raise",
        description="When a call failed after all retries; raise: the game and the run stop with the reason; hold: all "
        "units hold (or disband) in that phase, which is counted",
    )

    longest_prompt: int = Field(
        60_000,
        ge=1000,
        description="Characters of a prompt; a longer one leaves out what matters least, such as old letters",
    )

    @property
    def identity(self) -> str:
        """The settings that decide its play. The same model at another address is the same player."""
        names = {"model", "temperature", "max_completion_length", "structured"}
        if self.longest_prompt != type(self).model_fields["longest_prompt"].default:
            names.add("longest_prompt")
        decisive = self.model_dump(include=names)
        return json.dumps(decisive, sort_keys=True)


class OpponentsSettings(Settings):
    """The population and how line-ups are drawn from it."""

    members: dict[str, Annotated[float, Field(ge=0, le=LARGEST_WEIGHT)]] = Field(
        default_factory=lambda: {"random": 1.0},
        examples=[{"random": 2.0, "greedy": 1.0}],
        description="Members of the population and how often each is drawn: hold, random, greedy, dumbbot, lookahead "
        "(slow), champion (what comes with the package; slow, since it looks ahead), player:NAME and remote:NAME",
    )
    snapshot_every: int = Field(
        0, ge=0, description="Updates between frozen snapshots of the learner in the population; 0: none"
    )
    promote_margin: float = Field(
        0.0,
        ge=0,
        description="Rating points by which the learner must surely be stronger than the newest snapshot to join the "
        "population between scheduled snapshots; 0: by schedule alone",
    )
    promote_sigmas: float = Field(
        2.0,
        gt=0,
        description="Standard deviations from the learner's rating down to the lower bound that promotion compares; "
        "with 2, at most 2.3 % of the checks, one per update, promote a learner that is no stronger",
    )
    promote_min_updates: int = Field(
        5, ge=1, description="Least updates between the newest snapshot and one that joins by its rating"
    )
    max_snapshots: int = Field(
        8,
        ge=1,
        le=10**6,
        description="How many newest snapshots may be drawn (for specialists: per role); older ones stay on file",
    )
    max_members: int = Field(
        0,
        ge=0,
        le=10**6,
        description="Snapshots of this run that stay active (for specialists: per role); when more have joined, the "
        "weakest and most alike retire; pinned and imported members and bots never do; 0: no bound",
    )
    diversity: float = Field(
        1.0,
        ge=0,
        description="Rating points of strength that one point of difference by role from the kept snapshots is "
        "worth when max_members retires snapshots; 0: strength alone",
    )
    matchmaking: MatchmakingStrategy = Field(
        "weighted",
        description="How opponents are drawn: weighted (as members says), uniform, latest (the newest snapshot; "
        "anchors before the first), pfsp_hard (those that beat the learner: weight x (1 - p)^2 with p the learner's "
        "pairwise score), pfsp_variance (its equals: weight x p (1 - p)), rating_window (members rated near the "
        "learner), curriculum (ever stronger members, at each role's own pace)",
    )
    lineup: Literal["mixed", "same"] = Field(
        "mixed", description="mixed: each of the six other seats draws its own member; same: one member plays all six"
    )
    anchor_share: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of every role's blocks that are played against anchors alone, spread evenly",
    )
    anchors: Texts = Field(
        (),
        examples=[["random", "policy/v20"]],
        description="The anchors, as in members or by id (policy/v20); empty: all bots among the members",
    )
    self_play_seats: int = Field(
        0,
        ge=0,
        le=6,
        description="Other seats that the learner's newest policy plays, except against anchors; they yield no "
        "training data, and they take new weights during a game",
    )
    min_draw_probability: float = Field(
        0.02,
        ge=0,
        lt=1,
        description="Least probability of every drawable member under pfsp_hard, pfsp_variance, rating_window and "
        "curriculum, so that no score grows stale (with n members at most 1 / n)",
    )
    rating_window: float = Field(
        150.0,
        gt=0,
        description="Largest distance in rating points under rating_window; the three nearest may always be drawn",
    )
    curriculum: Texts = Field(
        ("random", "greedy", "dumbbot"),
        min_length=1,
        examples=[["random", "dumbbot"]],
        description="The members of the curriculum, easiest first; snapshots follow, the newest last",
    )
    curriculum_up: float = Field(
        1.2,
        gt=0,
        description="A role moves up a level when its share of the sum of squares is surely above this many times "
        "what it gets among equals",
    )
    curriculum_down: float = Field(
        0.6, ge=0, description="A role moves down a level when that share is surely below this many times it"
    )
    curriculum_games: int = Field(32, ge=2, description="Least games at a level before a role leaves it")
    results_half_life: float = Field(
        20.0, gt=0, description="Updates after which a game counts half in the learner's scores against members"
    )
    remotes: dict[str, ChatPlayerSettings] = Field(
        default_factory=dict,
        examples=[{"gpt": {"base_url": "http://127.0.0.1:8000/v1", "model": "gpt-oss-20b"}}],
        description="Chat models behind OpenAI-compatible endpoints, one table each",
    )
    players: dict[str, str] = Field(
        default_factory=dict,
        examples=[{"victim": "runs/beat_dumbbot"}],
        description="Saved policies that play as player:NAME, each with its own prompt, sampling and engine, so that "
        "they need not be of the run's shape: a checkpoint, a run (its newest checkpoint when the new run begins), an "
        "exported policy, or champion; rollout actors read the folder. lookahead: before it adds simulated games to "
        "each decision, and policy:champion is the champion without them, which is fast",
    )
    mirror_mib: int = Field(
        64,
        ge=0,
        le=512,
        description="MiB of frozen policies kept in Redis for rollout actors that do not see the run's folder: pinned "
        "ones first, then the newest; 0: none",
    )

    @field_validator("remotes", "players")
    @classmethod
    def _names_are_plain(cls, value: dict[str, Named]) -> dict[str, Named]:
        for name in value:
            if _NAME.fullmatch(name) is None:
                raise ValueError(f"the name of a player is letters, digits, - and _, not {name!r}")
            if name == CHAMPION:
                raise ValueError(f"{CHAMPION} is the policy that comes with the package; choose another name")
        return value

    @model_validator(mode="after")
    def _line_ups_can_be_drawn(self) -> Self:
        drawable = [name for name, weight in self.members.items() if weight > 0]
        anchors_needed = self.anchor_share > 0 or self.matchmaking == "latest"
        if anchors_needed and not self.anchors and not any(map(_is_bot, drawable)):
            raise ValueError("anchors: there is no bot among the members to be one; name the anchors")
        # An anchor may also be the id of a snapshot that does not exist yet.
        named = [("anchors", name) for name in self.anchors if "/" not in name]
        if self.matchmaking == "curriculum":
            named += [("curriculum", name) for name in self.curriculum]
        for key, name in named:
            if name not in drawable:
                raise ValueError(f"{key}: {name!r} is none of the members with a weight above 0: {', '.join(drawable)}")
        if len(set(self.curriculum)) < len(self.curriculum):
            raise ValueError("curriculum: a member is named twice")
        if self.max_members > self.max_snapshots:
            raise ValueError(
                f"max_members ({self.max_members}) is above max_snapshots ({self.max_snapshots}): the oldest kept "
                "snapshots could not be drawn; raise max_snapshots"
            )
        if self.curriculum_down >= self.curriculum_up:
            raise ValueError("curriculum_down must be less than curriculum_up")
        return self


def _is_bot(name: str) -> bool:
    return name != CHAMPION and not name.startswith((REMOTE_PREFIX, PLAYER_PREFIX))


def member_id(name: str) -> str:
    """The population's id of a configured name: ``bot/dumbbot``, ``remote/gpt``, ``player/victim``; ids stay.

    The champion is ``player/champion``.
    """
    if name.startswith(REMOTE_PREFIX):
        return f"remote/{name.removeprefix(REMOTE_PREFIX)}"
    if name == CHAMPION or name.startswith(PLAYER_PREFIX):
        return f"player/{name.removeprefix(PLAYER_PREFIX)}"
    return name if "/" in name else f"bot/{name}"


def saved_members(settings: OpponentsSettings) -> dict[str, str]:
    """The members that are saved policies, by the name in their id: each one's folder, or ``champion``."""
    known = {CHAMPION: CHAMPION, **settings.players}
    names = [name for name in settings.members if name == CHAMPION or name.startswith(PLAYER_PREFIX)]
    return {plain: known[plain] for plain in (name.removeprefix(PLAYER_PREFIX) for name in names)}


def unknown_chat_player(name: str, known: Collection[str]) -> str:
    """The error message about a chat player that the configuration does not describe."""
    taken = "play and evaluate take --config FILE, in Python config="
    advice = f"describe it in a table [opponents.remotes.{name}] of the config ({taken})"
    return f"no remote is called {name!r}; " + (f"there are {', '.join(sorted(known))}" if known else advice)


def unknown_player(name: str, known: Collection[str]) -> str:
    """Return the error message about a saved player that the configuration does not name."""
    if name == CHAMPION:
        return f"the player that comes with the package is called {CHAMPION}, without {PLAYER_PREFIX}"
    advice = f"name its folder in [opponents.players], as {name} = ..."
    return f"no player is called {name!r}; " + (f"there are {', '.join(sorted(known))}" if known else advice)
