"""The configuration: one section a model, TOML in, resolved TOML out, unknown keys refused by name."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from pydantic import ConfigDict, ValidationError, create_model, model_validator

from cluster.configs.checks import (
    check_anchors,
    check_episode_counts,
    check_gpus,
    check_group_keys,
    check_learner_processes,
    check_members,
    check_prompts,
    check_specialists,
    check_talk_credit,
    check_vocabulary,
)
from cluster.configs.sections import RolloutSettings, RunSettings, TaskSettings, TrainingSettings
from grpo_core.errors import one_line
from grpo_core.section import Settings
from grpo_core.settings import AlignmentSettings, GroupingSettings, PolicySettings
from opponents.settings import OpponentsSettings
from services.environments.diplomacy.settings import DiplomacyEvaluation, DiplomacyImitation, GameSettings
from services.environments.environment import World
from services.environments.registry import DEFAULT_WORLD, WorldError, load_world
from services.metrics.catalogue import declare
from services.settings import InferenceSettings, MetricsSettings, RedisSettings


class Config(Settings):
    """The whole configuration of a run of the default world; ``config_class`` has those of the others."""

    world_class: ClassVar[type[World]] = load_world(DEFAULT_WORLD)

    run: RunSettings = RunSettings()
    task: TaskSettings = TaskSettings()
    game: GameSettings = GameSettings()
    policy: PolicySettings = PolicySettings()
    inference: InferenceSettings = InferenceSettings()
    rollout: RolloutSettings = RolloutSettings()
    opponents: OpponentsSettings = OpponentsSettings()
    redis: RedisSettings = RedisSettings()
    grouping: GroupingSettings = GroupingSettings()
    imitation: DiplomacyImitation = DiplomacyImitation()
    learner: TrainingSettings = TrainingSettings()
    alignment: AlignmentSettings = AlignmentSettings()
    evaluation: DiplomacyEvaluation = DiplomacyEvaluation()
    metrics: MetricsSettings = MetricsSettings()

    @model_validator(mode="before")
    @classmethod
    def _with_defaults_of_the_world(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        filled = dict(data)
        for section, defaults in world_defaults(cls.world_class).items():
            given = filled.get(section, {})
            if isinstance(given, Mapping):
                filled[section] = {**defaults, **given}
        return filled

    @model_validator(mode="after")
    def _check_sections_agree(self) -> Config:
        world = self.world  # its section is checked when it is made
        check_episode_counts(self.learner, self.rollout)
        check_prompts(self.policy, self.inference, world)
        check_vocabulary(self.policy, self.evaluation, world)
        check_group_keys(self.grouping, self.learner, world)
        check_members(self.opponents, world)
        world.check_imitation(self.imitation)
        check_anchors(self.evaluation, world)
        check_gpus(self.rollout, self.inference.tensor_parallel_size, self.learner)
        check_learner_processes(self.learner, self.grouping, self.alignment, self.rollout)
        check_talk_credit(self.policy, self.inference, self.rollout, world)
        if self.policy.specialists:
            check_specialists(self.grouping, self.alignment, self.opponents, self.evaluation, world)
        return self

    @property
    def world(self) -> World:
        """What is played, made from the section [game] as it is; its metrics are known in this process from now on.

        Raises ValueError if the section [game] does not fit together, MetricsError if a metric's name is taken.
        """
        world = self.world_class(self.game)
        declare(world.measured)
        return world

    @property
    def writes_free_text(self) -> bool:
        """Whether answers, or some of them, are sampled from the whole vocabulary."""
        language = self.world.language
        is_free = not language.has_masks or (self.policy.prompt == "chat" and language.chat_is_free)
        return is_free or self.inference.decoding == "free"

    @property
    def policies_per_version(self) -> int:
        """The learner's policies: one, or a specialist for each role."""
        return len(self.world.roles) if self.policy.specialists else 1

    @property
    def digest(self) -> str:
        """Short SHA-256 of the resolved configuration."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


def world_defaults(world: type[World]) -> Mapping[str, Mapping[str, Any]]:
    """Defaults of a world for sections that all worlds share; group keys name its roles by its own word."""
    role = world.role_name
    grouping: dict[str, Any] = {"role_name": role, "weight_key": role, "surgery_key": role}
    grouping["keys"] = world.group_keys or (role,)
    made: dict[str, dict[str, Any]] = {"grouping": grouping}
    if "random" not in world.bots:  # which the shared sections name
        first = tuple(itertools.islice(world.bots, 1))
        made["opponents"] = {"members": dict.fromkeys(first, 1.0)}
        if world.evaluation_settings.model_fields["against"].default == ("random",):
            made["evaluation"] = {"against": first}
    sections = {*made, *world.defaults}
    return {section: {**made.get(section, {}), **world.defaults.get(section, {})} for section in sections}


@cache
def config_class(name: str) -> type[Config]:
    """The configuration of runs in one world.

    Raises WorldError if there is none of this name or import path, or its sections have keys without a default.
    """
    world = load_world(name)
    if world is Config.world_class:
        return Config
    try:
        return _made_class(name, world)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise WorldError(
            f"the defaults of the world {one_line(name, 120)} are no configuration: {where}: {fault['msg']}"
        ) from None


def _made_class(name: str, world: type[World]) -> type[Config]:
    sections: dict[str, Any] = {
        "task": (TaskSettings, TaskSettings(name=name)),
        "game": (world.game_settings, world.game_settings()),
        "evaluation": (world.evaluation_settings, world.evaluation_settings()),
        "imitation": (world.imitation_settings, world.imitation_settings()),
    }
    for section, defaults in world_defaults(world).items():
        kind: Any = sections[section][0] if section in sections else Config.model_fields[section].annotation
        sections[section] = (kind, kind(**defaults))
    model: type[Config] = create_model("Config", __base__=Config, __doc__=Config.__doc__, **sections)
    model.world_class = world
    return model


def config_class_of(data: Mapping[str, Any]) -> type[Config]:
    """The configuration class of a config file's tables, by their ``task.name``; raises as ``config_class`` does."""
    task = data.get("task", {})
    name = task.get("name", DEFAULT_WORLD) if isinstance(task, Mapping) else DEFAULT_WORLD
    return config_class(name) if isinstance(name, str) else Config


def config_from_json(text: str) -> Config:
    """Read a configuration that ``model_dump_json`` wrote."""
    name = TaskName.model_validate_json(text).task.name
    return config_class(name).model_validate_json(text)


class TaskName(Settings):
    """The part of a configuration that says which class it has."""

    model_config = ConfigDict(extra="ignore")

    task: TaskSettings
