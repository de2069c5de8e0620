"""The number of rollout actors a run needs, from the measured load of learner and actors, smoothed and bounded.

If ``n`` actors have their seats taken for a share ``u`` of the time and the learner is busy for a share ``b``, then
``n * u / b`` actors balance the load. ``HEADROOM`` adds some, because an idle learner costs more than an idle actor.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster.configs.sections import RolloutSettings

if TYPE_CHECKING:
    from cluster.driver.rollout_pool import RolloutPool

HEADROOM = 1.25  # the learner's share of busy time over the actors'
UP_AFTER = 2  # windows that must agree before actors are added
DOWN_AFTER = 4  # windows before actors are removed: a released node takes minutes to return
UP_BAND = 1.1  # no change while the need is within these factors of the present number
DOWN_BAND = 0.8
MAX_GROWTH = 2.0  # factor of one step: measurements of few actors predict little about many
LONGEST_WINDOW = 10  # times rollout.scale_every_s, for updates that take longer than that
MIN_BUSY = 0.02  # smaller busy shares of the learner count as this one


@dataclass(frozen=True, slots=True)
class Load:
    """Means over one window of time."""

    actors: float  # that could play
    taken: float  # share of their seats that were taken, 0..1
    busy: float  # share of the time that the learner had an update under way, 0..1

    @property
    def needed(self) -> float:
        """Actors whose seats would be taken for ``1 / HEADROOM`` of the time that the learner is busy."""
        return HEADROOM * self.actors * self.taken / max(self.busy, MIN_BUSY)


class LoadMeter:
    """Adds up observations; each stands for the time since the one before."""

    def __init__(self, now: float) -> None:
        """Begin the first window; all times are seconds on one monotonic clock."""
        self.restart(now)

    def restart(self, now: float) -> None:
        """Begin a new window; also after activity that is not part of the load, such as an evaluation."""
        self._start = self._last = now
        self._actors = self._seats = self._taken = self._busy = 0.0

    def observe(self, now: float, *, actors: int, games: int, seats: int, learning: bool) -> None:
        """Add the state since the last observation: loaded actors, their games and seats, an update under way."""
        seconds = now - self._last
        self._last = now
        self._actors += seconds * actors
        self._seats += seconds * seats
        self._taken += seconds * min(games, seats)
        self._busy += seconds * learning

    def seconds(self) -> float:
        """Length of the window so far."""
        return self._last - self._start

    def load(self) -> Load | None:
        """Means of the window so far; None while no actor could play."""
        seconds = self.seconds()
        if seconds <= 0 or self._seats <= 0:
            return None
        return Load(self._actors / seconds, self._taken / self._seats, self._busy / seconds)


class Autoscaler:
    """Decides how many actors there should be; it adds actors slowly and removes them more slowly."""

    def __init__(self, rollout: RolloutSettings, episodes_per_update: int) -> None:
        self.min_actors = rollout.actors
        useful = useful_actors(rollout, episodes_per_update)
        self.max_actors = max(rollout.actors, min(rollout.max_actors or 0, useful))
        self._needs: deque[float] = deque(maxlen=max(UP_AFTER, DOWN_AFTER))
        self._wanted = rollout.actors

    def decide(self, load: Load) -> int:
        """Take one window into account; return the number of actors wanted from now on."""
        self._needs.append(load.needed)
        recent = list(self._needs)
        up, down = recent[-UP_AFTER:], recent[-DOWN_AFTER:]
        wanted = self._wanted
        all_there = load.actors >= self._wanted
        if all_there and len(up) == UP_AFTER and min(up) > UP_BAND * load.actors:
            wanted = math.ceil(min(*up, MAX_GROWTH * load.actors))
        elif len(down) == DOWN_AFTER and max(down) < DOWN_BAND * load.actors:
            wanted = math.ceil(max(down))
        wanted = min(max(wanted, self.min_actors), self.max_actors)
        if wanted != self._wanted:
            self._needs.clear()  # earlier measurements predict little for another number of actors
            self._wanted = wanted
        return wanted


class Scaling:
    """Observes the load of a run's learner and actors, and resizes the pool as ``Autoscaler`` decides."""

    def __init__(
        self,
        rollout: RolloutSettings,
        episodes_per_update: int,
        pool: RolloutPool,
        log: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin to observe; ``pool`` is resized only if ``rollout.max_actors`` is set. ``log`` shows changes."""
        self._settings = rollout
        self._pool = pool
        self._log = log
        self._clock = clock
        self._scaler = Autoscaler(rollout, episodes_per_update)
        self._meter = LoadMeter(clock())
        self.load: Load | None = None  # of the last whole window; None before there was one
        self.wanted = rollout.actors
        useful = useful_actors(rollout, episodes_per_update)
        if rollout.max_actors is not None and useful < rollout.max_actors:
            log(
                f"more than {useful} rollout actors would have empty seats (rollout.max_staleness and "
                "learner.episodes_per_update bound the games in flight, rollout.games_per_actor are one actor's): "
                f"at most {self._scaler.max_actors} of rollout.max_actors = {rollout.max_actors} will be asked for"
            )

    def restart(self) -> None:
        """Begin a new window, and ignore the time since the last observation, for instance an evaluation."""
        self._meter.restart(self._clock())

    def observe(self, *, learning: bool, updated: bool) -> None:
        """Observe the load, and resize the pool at the end of a window; call this at every poll.

        ``learning``: whether an update is under way. ``updated``: whether one has ended since the last call. A window
        ends with an update, so that it covers whole cycles of waiting and learning.
        """
        ready = self._pool.ready
        seats = ready * self._settings.games_per_actor
        games = self._pool.games_in_flight
        self._meter.observe(self._clock(), actors=ready, games=games, seats=seats, learning=learning)
        seconds = self._meter.seconds()
        if seconds < self._settings.scale_every_s or not (
            updated or seconds >= LONGEST_WINDOW * self._settings.scale_every_s
        ):
            return
        load = self._meter.load()
        self.restart()
        if load is None:
            return
        self.load = load
        if self._scaler.max_actors == self._scaler.min_actors:
            return
        wanted = self._scaler.decide(load)
        if wanted != self.wanted:
            self._log(
                f"{wanted} rollout actors wanted instead of {self.wanted}: the learner is busy for {load.busy:.0%} of "
                f"the time, {load.taken:.0%} of the actors' seats are taken"
            )
            self.wanted = wanted
        self._pool.resize(wanted)


def useful_actors(rollout: RolloutSettings, episodes_per_update: int) -> int:
    """Number of actors beyond which seats stay empty, because admission bounds the games in flight."""
    in_flight = (rollout.max_staleness + 1) * episodes_per_update
    return math.ceil(in_flight / rollout.games_per_actor)
