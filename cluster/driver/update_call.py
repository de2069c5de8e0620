"""The driver's side of one update: give the learner its blocks, top them up where they say too little, let it learn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from cluster.actors.messages import Shortage, UpdateReport
from cluster.configs.schema import Config
from cluster.driver.block_schedule import BlockSchedule
from cluster.runtime.ray_calls import answer

ANSWER_S = 0.5  # to fetch what is known to be ready


class UpdateCall:
    """Calls the learner, one call at a time, from an update's first block to its report.

    Without topping up there is one call an update. With it the learner first collects its blocks and says which ones
    would replace samples of zero-variance groups; the schedule has them played outside the admission bound (they
    replace what was used in vain, so nothing waits longer), and the learner collects those too, until it lacks nothing,
    ``learner.top_up_episodes`` are used up, or ``learner.top_up_timeout_s`` has passed.
    """

    def __init__(
        self,
        config: Config,
        learner: Any,
        ledger: BlockSchedule,
        log: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        may_learn: Callable[[], bool] | None = None,
    ) -> None:
        """Call nothing yet.

        Args:
            config: of the run.
            learner: the actor.
            ledger: of the blocks.
            log: hears what the user should know.
            clock: seconds.
            may_learn: asked before an update begins, again and again until it says yes; None: at any time.
        """
        self._settings = config.learner
        self._timeout_s = config.redis.group_timeout_s + config.redis.answer_timeout_s
        self._learner = learner
        self._ledger = ledger
        self._log = log
        self._clock = clock
        self._may_learn = may_learn
        self._refs: list[Any] = []  # the call under way: report and weights of an update, or a shortage
        self._learning = False  # whether that call is the update itself
        self._collected = self._settings.top_up_episodes == 0  # nothing more is to be taken before it
        self._deadline: float | None = None  # of the extra blocks

    @property
    def waits_for(self) -> list[Any]:
        """What to wait for, besides blocks; empty while the learner has no call."""
        return self._refs[:1]

    def proceed(self, version: int) -> None:
        """Make the next call as soon as the buffer holds what it takes."""
        if self._refs:
            return
        if not self._ledger.ready():
            if self._deadline is None or self._clock() < self._deadline:
                return
            if not self._collected:
                self._give_up(version, "did not arrive within learner.top_up_timeout_s", self._ledger.missing())
        if self._collected and self._may_learn is not None and not self._may_learn():
            return
        if self._settings.top_up_episodes == 0:
            self._ledger.top_up({})  # a resumed run may have some left from before it was turned off
        blocks = self._ledger.hand_over()
        if self._collected:
            update = self._learner.update.options(num_returns=2)
            self._refs = list(update.remote(blocks, self._timeout_s, self._ledger.topped_up))
            self._learning = True
        else:
            self._refs = [self._learner.collect.remote(blocks, self._timeout_s)]

    def answered(self, version: int) -> tuple[UpdateReport, Any] | None:
        """To be asked when the call is done: the report and the weights, or None when the update goes on."""
        if not self._learning:
            self._top_up(version, answer(self._refs[0], ANSWER_S, "the learner"))
            self._refs = []
            return None
        report: UpdateReport = answer(self._refs[0], ANSWER_S, "the learner")
        weights = self._refs[1]
        self._ledger.updated()
        self._refs, self._learning, self._deadline = [], False, None
        self._collected = self._settings.top_up_episodes == 0
        return report, weights

    def _top_up(self, version: int, shortage: Shortage) -> None:
        if self._deadline is None:
            self._deadline = self._clock() + self._settings.top_up_timeout_s
        if self._ledger.top_up(shortage.allowed):
            return
        self._collected = True
        if shortage.missing:
            self._give_up(version, "are more than learner.top_up_episodes allows", shortage.missing)

    def _give_up(self, version: int, why: str, blocks: Mapping[str, int]) -> None:
        self._collected = True
        lacking = ", ".join(f"{count} of {country}" for country, count in sorted(blocks.items()))
        self._log(
            f"update {version + 1} goes on with zero-variance groups: further blocks ({lacking}) {why}; coarser "
            "grouping.keys or denser rewards leave fewer"
        )
