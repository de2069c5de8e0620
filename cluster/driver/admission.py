"""Admission: how far rollouts may run ahead of the learner (AReaL's staleness bound, counted in episodes)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Admission:
    """Games start only while all episodes ever started fit ``(version + max_staleness + 1) * episodes_per_update``.

    That is, episodes of the schedule: the extra ones that top an update up each replace one that it used, and are
    bounded by ``learner.top_up_episodes``.

    An episode that starts under this bound is used at most ``max_staleness`` updates after the version that began it:
    staleness is bounded without ever throwing an episode away.
    """

    episodes_per_update: int
    max_staleness: int

    def admits(self, version: int, started: int, episodes: int) -> bool:
        """Whether ``episodes`` more may start when ``started`` have, at learner version ``version``."""
        return started + episodes <= (version + self.max_staleness + 1) * self.episodes_per_update
