"""The actor class of a peer; like the other actors it loads torch in its own process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cluster.actors.learner_group.failures import exchange_failed, of_process
from cluster.actors.learner_group.meeting import software
from cluster.configs.schema import config_from_json
from cluster.errors import LostError
from cluster.runtime.light_transformers import leave_out_optional_packages
from cluster.runtime.ray_calls import first_line

if TYPE_CHECKING:
    from cluster.actors.learner_group.meeting import Meeting
    from cluster.actors.learner_group.member import ProbePrompts, Recipe, Step
    from grpo_core.training.learner_state import LearnerState
    from grpo_core.types import Batch


class LearnerPeerActor:
    """Ray actor of a ``LearnerMember``, whose methods it forwards."""

    def __init__(self, config_json: str, rank: int) -> None:
        leave_out_optional_packages()
        from cluster.actors.learner_group.member import LearnerMember

        self._rank = rank
        self._member = LearnerMember(config_from_json(config_json), rank)
        self._failure: Exception | None = None

    def heartbeat(self) -> None:
        """Return at once, or raise what ended this process's part; it runs in a separate thread."""
        if self._failure is not None:
            raise self._failure

    def ready(self) -> Mapping[str, str]:
        """Return the versions of its software once the process has started."""
        return software()

    def join(self, meeting: Meeting) -> None:  # noqa: D102
        self._do(self._member.join, meeting)

    def make(self, recipe: Recipe) -> None:  # noqa: D102
        self._do(self._member.make, recipe)

    def load_state(self, state: LearnerState) -> None:  # noqa: D102
        self._do(self._member.load_state, state)

    def step(self, batch: Batch, traced_tokens: int | None) -> Step:  # noqa: D102
        step: Step = self._do(self._member.step, batch, traced_tokens)
        return step

    def publish(self, prompts: ProbePrompts) -> None:  # noqa: D102
        self._do(self._member.publish, prompts)

    def gather_policy(self) -> None:  # noqa: D102
        self._do(self._member.gather_policy)

    def gather_checkpoint(self) -> None:  # noqa: D102
        self._do(self._member.gather_checkpoint)

    def _do(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except Exception as error:
            if exchange_failed(error):
                self._failure = LostError(f"{of_process(self._rank)} lost the others: {first_line(error)}")
            else:
                self._failure = error
            self._member.close()  # else the others would wait for this one
            raise self._failure from error
