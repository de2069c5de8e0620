"""The settings of an imitation, the messages of its processes to the one that started them, and its report."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from cluster.configs.schema import Config
from cluster.errors import RunError
from grpo_core.errors import one_line
from grpo_core.files import read_json
from grpo_core.settings import PolicySettings
from services.environments.environment import World
from services.environments.registry import load_world
from services.environments.settings import ImitationSettings
from services.settings import InferenceSettings

REPORT = "imitation.json"
UNTRAINED = "untrained"  # folder, within the imitating policy's, of the policy before


@dataclass(frozen=True, slots=True)
class StageBegan:
    """A stage with a number of steps begins; each process sends this once."""

    name: str
    steps: int


@dataclass(frozen=True, slots=True)
class StepsDone:
    """Further steps of a stage are done."""

    name: str
    steps: int


@dataclass(frozen=True, slots=True)
class GamesHandedOver:
    """The process gave its games to the first one, which learns alone, and ends."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The process cannot continue, for a reason of one line; ``expected``: the user can do something about it."""

    reason: str
    expected: bool


@dataclass(frozen=True, slots=True)
class ImitationReport:
    """The result; nats are negative log-likelihoods of the chosen tokens in held-out games."""

    teacher: str
    games: int
    saved_games: int
    decisions: int  # learned from
    held_out_decisions: int
    nats_before: float  # NaN, here and below, is null in the file
    nats_after: tuple[float, ...]  # after each epoch
    playing_seconds: float
    training_seconds: float
    made_from: str  # ``ImitationTask.digest``


Message = StageBegan | StepsDone | GamesHandedOver | Failed | ImitationReport


@dataclass(frozen=True, slots=True)
class ImitationTask:
    """The settings that imitation uses."""

    settings: ImitationSettings
    policy: PolicySettings
    seed: int
    inference: InferenceSettings  # its prompts and thoughts
    bf16: bool  # learner.bf16
    task: str  # task.name
    game: Any  # the checked section [game]
    tokens_per_microbatch: int  # learner.tokens_per_microbatch, on a GPU
    first_game: int = 0  # number of the first teacher's game

    @classmethod
    def of(cls, config: Config) -> ImitationTask:
        """Take the settings from a run's configuration."""
        return cls(
            config.imitation,
            config.policy,
            config.run.seed,
            config.inference,
            config.learner.bf16,
            config.task.name,
            config.game,
            config.learner.tokens_per_microbatch,
        )

    @property
    def world(self) -> World:
        """What is imitated, as imitation plays it."""
        return load_world(self.task)(self.game).as_imitated(self.settings)

    @property
    def digest(self) -> str:
        """Digest of all settings that decide the imitating policy."""
        sections = [self.policy, self.settings.model_copy(update={"control": "none"}), self.game]
        parts = [self.task, *(section.model_dump(mode="json") for section in sections), self.seed, self.first_game]
        if self.policy.prompt == "chat":
            parts.append([self.inference.thinking_tokens, self.inference.max_completion_length])
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def read_report(folder: Path) -> dict[str, Any] | None:
    """Read the ``ImitationReport`` in an imitating policy's folder as plain data; None if there is none.

    Raises RunError if it is damaged.
    """
    path = folder / REPORT
    try:
        document = read_json(path)
        if isinstance(document, dict) and isinstance(after := document.get("nats_after"), list):
            document["nats_after"] = [math.nan if nats is None else nats for nats in after]
            document["nats_before"] = math.nan if document.get("nats_before") is None else document["nats_before"]
        return asdict(msgspec.convert(document, ImitationReport))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
        raise RunError(f"{path} is damaged ({one_line(error, 200)}); remove {folder} to imitate again") from error
