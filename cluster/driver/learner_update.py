"""The driver's side of one update: give the learner its blocks, top them up if needed, let it learn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from cluster.actors.messages import Shortage, UpdateReport
from cluster.driver.block_schedule import BlockSchedule
from cluster.runtime.ray_calls import get_answer
from grpo_core.settings import LearnerSettings
from services.replay.buffer import UnreadableError

ANSWER_S = 0.5  # to fetch a result that is known to be ready
MAX_REPLACED = 3  # times that an update's blocks are replaced because none of them can be read


class UpdateCall:
    """Calls the learner, one call at a time, from an update's first block to its report.

    Without topping up there is one call per update, and one more each time that none of its blocks can be read and
    others are played in their place. With topping up the learner first collects its blocks, and returns which
    further ones would replace those of zero-variance groups. These are played and collected too, until none is missing,
    ``learner.top_up_episodes`` are used up, or ``learner.top_up_timeout_s`` has passed.
    """

    def __init__(
        self,
        settings: LearnerSettings,
        take_timeout_s: float,
        learner: Any,
        schedule: BlockSchedule,
        log: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        may_learn: Callable[[], bool] | None = None,
    ) -> None:
        """Make no call yet; ``take_timeout_s`` limits how long the learner waits for blocks in the buffer.

        If ``may_learn`` is given, an update begins only when it returns True.
        """
        self._settings = settings
        self._take_timeout_s = take_timeout_s
        self._learner = learner
        self._schedule = schedule
        self._log = log
        self._clock = clock
        self._may_learn = may_learn
        self._refs: list[Any] = []  # the call under way: report and weights of an update, or a shortage
        self._learning = False  # whether that call is the update itself
        self._collected = settings.top_up_episodes == 0  # no more blocks are taken before the update
        self._deadline: float | None = None  # of the extra blocks
        self._replaced = 0  # times, in the update under way

    @property
    def waits_for(self) -> list[Any]:
        """The reference to wait for besides blocks; empty while the learner has no call."""
        return self._refs[:1]

    def proceed(self, version: int) -> None:
        """Make the next call as soon as the buffer holds its blocks."""
        if self._refs:
            return
        if not self._schedule.ready():
            if self._deadline is None or self._clock() < self._deadline:
                return
            if not self._collected:
                self._give_up(version, "did not arrive within learner.top_up_timeout_s", self._schedule.missing())
        if self._collected and self._may_learn is not None and not self._may_learn():
            return
        if self._settings.top_up_episodes == 0:
            self._schedule.top_up({})  # a resumed run may have extra blocks from before topping up was turned off
        blocks = self._schedule.hand_over()
        if self._collected:
            update = self._learner.update.options(num_returns=2)
            self._refs = list(update.remote(blocks, self._take_timeout_s, self._schedule.topped_up))
            self._learning = True
        else:
            self._refs = [self._learner.collect.remote(blocks, self._take_timeout_s)]

    def finish(self, version: int) -> tuple[UpdateReport, Any] | None:
        """Read the answer, which must be ready: report and weights of an update, or None after a collecting call.

        If no block of the update can be read, others are requested in their place, and it returns None, too; raises
        UnreadableError after ``MAX_REPLACED`` times.
        """
        try:
            answer = get_answer(self._refs[0], ANSWER_S, "the learner")
        except UnreadableError as error:
            self._replace(version, error)
            return None
        if not self._learning:
            self._top_up(version, answer)
            self._refs = []
            return None
        report: UpdateReport = answer
        weights = self._refs[1]
        self._schedule.updated()
        self._refs, self._learning, self._deadline, self._replaced = [], False, None, 0
        self._collected = self._settings.top_up_episodes == 0
        return report, weights

    def _replace(self, version: int, error: UnreadableError) -> None:
        self._replaced += 1
        if self._replaced > MAX_REPLACED:
            raise error
        self._schedule.replace(error.missing)
        self._refs, self._learning = [], False
        blocks = ", ".join(f"{count} of {country}" for country, count in sorted(error.missing.items()))
        self._log(f"update {version + 1}: no block can be read ({blocks}); others are played in their place")

    def _top_up(self, version: int, shortage: Shortage) -> None:
        if self._deadline is None:
            self._deadline = self._clock() + self._settings.top_up_timeout_s
        if self._schedule.top_up(shortage.allowed):
            return
        self._collected = True
        if shortage.missing:
            self._give_up(version, "are more than learner.top_up_episodes allows", shortage.missing)

    def _give_up(self, version: int, why: str, blocks: Mapping[str, int]) -> None:
        self._collected = True
        lacking = ", ".join(f"{count} of {country}" for country, count in sorted(blocks.items()))
        self._log(
            f"update {version + 1} goes on with samples without signal: further blocks ({lacking}) {why}; coarser "
            "grouping.keys or denser rewards leave fewer"
        )
