"""The methods that are compared, as data: how samples are grouped, what estimates their worth, and what is trained."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from cluster.comparison.learning_rates import TUNED_ON, learning_rate
from cluster.comparison.sampling import ROLE_NAME
from grpo_core.settings import GroupingSettings, LearnerSettings

BY_SEAT = ROLE_NAME
SAME_START = 8  # episodes that begin alike, where a method compares such


@dataclass(frozen=True, slots=True)
class Method:
    """One way to learn; all but ``rllib_ppo`` are the core's."""

    name: str
    title: str
    does: str  # one sentence for the page
    grouping: Mapping[str, Any] = field(default_factory=dict)
    learner: Mapping[str, Any] = field(default_factory=dict)
    kind: Literal["grouped", "critic", "rllib"] = "grouped"
    network: Literal["plain", "routed"] = "plain"
    starts_alike: int = 1  # episodes that begin in the same state
    mixes_seats: bool = False  # seats count as one role, so that baselines mix them
    needs_fact: str = ""  # a fact of the task's starts; tasks without it are left out

    def grouping_settings(self, facts: frozenset[str]) -> GroupingSettings:
        """The settings of groups, for a task whose starts have ``facts`` besides those of all tasks."""
        keys = {"role_name": ROLE_NAME, "weight_key": BY_SEAT, "surgery_key": BY_SEAT, **self.grouping}
        by_task = f"{BY_SEAT}+variant" if "variant" in facts else BY_SEAT
        filled = {name: _filled(value, by_task) for name, value in keys.items()}
        if "choices" in filled:
            filled["choices"] = tuple(dict.fromkeys(filled["choices"]))  # without variants some are the same
        return GroupingSettings(**filled)

    def learner_settings(self, changes: Mapping[str, Any]) -> LearnerSettings:
        """The settings of updates; ``changes`` are the learning rate and what a sensitivity study varies."""
        return LearnerSettings(**{**_COMMON, **self.learner, **changes})


_DISCOUNT = 0.99
_COMMON: Mapping[str, Any] = {
    "lr_warmup_updates": 0,
    "adam_beta2": 0.999,
    "max_grad_norm": 0.5,
    "minibatches": 8,
    "epochs": 4,
    "epsilon": 0.2,
    "epsilon_high": 0.2,
    "updates": 10**9,
}
RLLIB_SETTINGS: Mapping[str, Any] = {
    "lambda_": 0.95, "train_batch_size": 2048, "minibatch_size": 256, "num_epochs": 10,
    "vf_loss_coeff": 0.5, "clip_param": 0.2, "vf_clip_param": 1e9, "use_kl_loss": False, "entropy_coeff": 0.0,
    "grad_clip": 0.5,
}  # fmt: skip
# What differs from these on a task.
RLLIB_ON_TASK: Mapping[str, Mapping[str, Any]] = {
    # With the batch above, one of two runs did not learn to land.
    "lunar_lander": {"lambda_": 0.98, "train_batch_size": 8192},
    # RLlib counts a batch in steps and a minibatch in choices: where three seats act at once, the settings above make
    # three times as many and smaller minibatches, and the policy ends below an untrained one. These are the core's.
    "navigation": {"train_batch_size": 800, "minibatch_size": 300, "num_epochs": 4},
}
_DISCOUNT_ON_TASK: Mapping[str, float] = {"lunar_lander": 0.999}  # of all methods
_BY_TIME = ("{task}+phase", "{task}")
_PER_STEP = {"baseline": "leave_one_out", "scale_rewards": "batch"}

METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method("rllib_ppo", "PPO (RLlib)", "RLlib's PPO: a critic, generalised advantages over steps.", kind="rllib"),
        Method(
            "ppo_grouped", "Group-normalised PPO",
            "PPO with a critic, whose generalised advantages get the mean and deviation of their task's group.",
            {"keys": ("{task}",), "scale_rewards": "group"}, kind="critic",
        ),
        Method(
            "reinforce_time", "REINFORCE, baseline by time",
            "One step along the gradient for each batch; a return is compared with others' from the same time step.",
            {"keys": _BY_TIME, **_PER_STEP}, {"epochs": 1, "minibatches": 1},
        ),
        Method(
            "grpo_batch", "GRPO, one group",
            "Whole episodes of a seat are compared with one another, whatever their task.",
            {"keys": (BY_SEAT,), "scale_rewards": "batch"}, {"returns": "episode"},
        ),
        Method(
            "grpo_task", "GRPO by task",
            "Whole episodes are compared within their task, and divided by that task's deviation.",
            {"keys": ("{task}",), "scale_rewards": "group"}, {"returns": "episode"},
        ),
        Method(
            "grpo_start", "GRPO by same start",
            f"{SAME_START} episodes begin alike and are compared with one another, as completions of one prompt are.",
            {"keys": (f"{BY_SEAT}+start",), "scale_rewards": "group"}, {"returns": "episode"},
            starts_alike=SAME_START,
        ),
        Method(
            "grpo_time", "GRPO by task and time",
            "Returns-to-go are compared with others' of the same task and time step.",
            {"keys": _BY_TIME, **_PER_STEP, "scale_rewards": "group"},
        ),
        Method(
            "grpo_choose", "GRPO, keys chosen by the run",
            "Returns-to-go; of the chains time, task and seat, alone or together, the best in earlier batches.",
            {"keys": "choose", "choices": (_BY_TIME, ("{task}",), (f"{BY_SEAT}+phase", BY_SEAT), (BY_SEAT,)),
             **_PER_STEP, "scale_rewards": "group"},
        ),
        Method(
            "grpo_auto", "GRPO by clusters of starts",
            "Whole episodes are compared within clusters (k-means) of what was seen first, drawn again in each batch.",
            {"keys": (f"{BY_SEAT}+auto", BY_SEAT), "scale_rewards": "group"}, {"returns": "episode"},
        ),
        Method(
            "grpo_adaptive", "GRPO by lasting clusters",
            "The same with clusters that are followed from batch to batch.",
            {"keys": (f"{BY_SEAT}+adaptive", BY_SEAT), "scale_rewards": "group"}, {"returns": "episode"},
        ),
        Method(
            "grpo_dirichlet", "GRPO by an infinite mixture",
            "The same with a Dirichlet-process mixture, which finds how many clusters there are.",
            {"keys": (f"{BY_SEAT}+dirichlet", BY_SEAT), "scale_rewards": "group"}, {"returns": "episode"},
        ),
        Method(
            "grpo_pcgrad", "GRPO by task, PCGrad",
            "GRPO by task; the tasks' gradients lose what conflicts.",
            {"keys": ("{task}",), "scale_rewards": "group", "gradient_surgery": "pcgrad", "surgery_key": "{task}"},
            {"returns": "episode"}, needs_fact="variant",
        ),
        Method(
            "grpo_cagrad", "GRPO by task, CAGrad",
            "GRPO by task; the step is the one that helps the worst task most, near the mean gradient.",
            {"keys": ("{task}",), "scale_rewards": "group", "gradient_surgery": "cagrad", "surgery_key": "{task}"},
            {"returns": "episode"}, needs_fact="variant",
        ),
        Method(
            "grpo_routed", "GRPO by task, routed network",
            "GRPO by task with soft modules, between which the state chooses the routes.",
            {"keys": ("{task}",), "scale_rewards": "group"}, {"returns": "episode"},
            network="routed",
        ),
        Method(
            "grpo_no_seats", "GRPO, seats mixed",
            "Whole episodes of all seats are compared with one another: what grouping by seat is held against.",
            {"keys": (BY_SEAT,), "scale_rewards": "batch"}, {"returns": "episode"},
            mixes_seats=True,
        ),
    )
}  # fmt: skip


def discount(task: str) -> float:
    """The discount of all methods on a task."""
    return _DISCOUNT_ON_TASK.get(task, _DISCOUNT)


def settings_digest() -> str:
    """Name what all methods' runs depend on, so that runs of other settings are not mixed with them."""
    by_task = {
        task: [discount(task), {name: learning_rate(name, task) for name in METHODS}, dict(RLLIB_ON_TASK.get(task, {}))]
        for task in TUNED_ON
    }
    settings = {"common": dict(_COMMON), "rllib": dict(RLLIB_SETTINGS), "by_task": by_task}
    texts = dict.fromkeys(("title", "does"), "")  # a better wording is no other method
    settings |= {name: {**asdict(method), **texts} for name, method in METHODS.items()}
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=dict).encode()).hexdigest()[:16]


def _filled(value: Any, by_task: str) -> Any:
    if isinstance(value, str):
        return value.replace("{task}", by_task)
    return tuple(_filled(each, by_task) for each in value) if isinstance(value, tuple) else value
