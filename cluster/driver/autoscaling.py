"""How many rollout actors a run needs, from what learner and actors were seen to do: measured, smoothed, bounded.

Learner and rollouts each leave the other waiting when they do not match. With ``n`` actors whose seats are taken for a
share ``u`` of the time, while the learner is busy for a share ``b`` of it, ``n * u / b`` actors would wait as long as
the learner does: more when the learner starves (``b`` small), fewer when admission keeps seats empty (``u`` small).
There are somewhat more than that, for an idle learner costs more than an idle actor.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cluster.configs.schema import Config

HEADROOM = 1.25  # by which the actors' share of busy time may lie below the learner's
UP_AFTER = 2  # windows that must agree before actors are added
DOWN_AFTER = 4  # before some are let go: a node that was given back takes minutes to return
UP_BAND = 1.1  # no change while the need is within these factors of what is there
DOWN_BAND = 0.8
MOST_GROWTH = 2.0  # factor of one step: the figures of few actors say little about many
LONGEST_WINDOW = 10  # times rollout.scale_every_s, for updates that take longer than that
LEAST_BUSY = 0.02  # a learner that was busy for less than this has shown nothing but that it starves


@dataclass(frozen=True, slots=True)
class Load:
    """What one window of time showed."""

    actors: float  # that could play, mean
    taken: float  # share of their seats that were taken, 0..1
    busy: float  # share of the time that the learner had an update under way, 0..1

    @property
    def needed(self) -> float:
        """Actors whose seats would be taken for ``1 / HEADROOM`` of the time that the learner is busy."""
        return HEADROOM * self.actors * self.taken / max(self.busy, LEAST_BUSY)


class LoadMeter:
    """Adds up what was seen at each look, each look standing for the time since the one before."""

    def __init__(self, now: float) -> None:
        """Begin.

        Args:
            now: seconds on a clock that never goes back; all times given later are on it too.
        """
        self.restart(now)

    def restart(self, now: float) -> None:
        """Forget the window: a new one begins, or what happened in it says nothing, such as an evaluation."""
        self._start = self._last = now
        self._actors = self._seats = self._taken = self._busy = 0.0

    def look(self, now: float, *, actors: int, games: int, seats: int, learning: bool) -> None:
        """What has been the case since the last look.

        Args:
            now: seconds.
            actors: that have loaded their engine.
            games: that they were given.
            seats: that they have.
            learning: whether the learner had an update under way.
        """
        seconds = now - self._last
        self._last = now
        self._actors += seconds * actors
        self._seats += seconds * seats
        self._taken += seconds * min(games, seats)
        self._busy += seconds * learning

    def seconds(self) -> float:
        """Of the window so far."""
        return self._last - self._start

    def load(self) -> Load | None:
        """What the window showed so far; None while nobody could play."""
        seconds = self.seconds()
        if seconds <= 0 or self._seats <= 0:
            return None
        return Load(self._actors / seconds, self._taken / self._seats, self._busy / seconds)


class Autoscaler:
    """Says how many actors there should be; slow to change its mind, and slower to let actors go."""

    def __init__(self, config: Config) -> None:
        rollout = config.rollout
        self.least = rollout.actors
        self.most = max(rollout.actors, min(rollout.max_actors or 0, useful_actors(config)))
        self._needs: deque[float] = deque(maxlen=max(UP_AFTER, DOWN_AFTER))
        self._wanted = rollout.actors

    def decide(self, load: Load) -> int:
        """Take one window into account; the number of actors wanted from now on."""
        self._needs.append(load.needed)
        recent = list(self._needs)
        up, down = recent[-UP_AFTER:], recent[-DOWN_AFTER:]
        wanted = self._wanted
        all_came = load.actors >= self._wanted
        if all_came and len(up) == UP_AFTER and min(up) > UP_BAND * load.actors:
            wanted = math.ceil(min(*up, MOST_GROWTH * load.actors))
        elif len(down) == DOWN_AFTER and max(down) < DOWN_BAND * load.actors:
            wanted = math.ceil(max(down))
        wanted = min(max(wanted, self.least), self.most)
        if wanted != self._wanted:
            self._needs.clear()  # what was measured before says little about what comes now
            self._wanted = wanted
        return wanted


class Pool(Protocol):
    """What is scaled: the rollout actors of a run."""

    @property
    def ready(self) -> int:
        """Actors that may be given games."""
        ...

    @property
    def games_in_flight(self) -> int:
        """Games given to actors."""
        ...

    def resize(self, wanted: int) -> None:
        """Have so many actors, as soon as the cluster has room and games are over."""
        ...


class Scaling:
    """Looks at the load of a run's learner and actors, and has as many actors as ``Autoscaler`` says."""

    def __init__(
        self,
        config: Config,
        pool: Pool,
        log: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin to look.

        Args:
            config: of the run.
            pool: resized only where ``rollout.max_actors`` is set.
            log: hears of changes, and of a bound that can never be reached.
            clock: seconds.
        """
        self._settings = config.rollout
        self._pool = pool
        self._log = log
        self._clock = clock
        self._scaler = Autoscaler(config)
        self._meter = LoadMeter(clock())
        self._latest: Load | None = None
        self.wanted = config.rollout.actors
        useful = useful_actors(config)
        if config.rollout.max_actors is not None and useful < config.rollout.max_actors:
            log(
                f"more than {useful} rollout actors would have empty seats (rollout.max_staleness and "
                "learner.episodes_per_update bound the games in flight, rollout.games_per_actor are one actor's): "
                f"at most {self._scaler.most} of rollout.max_actors = {config.rollout.max_actors} will be asked for"
            )

    @property
    def load(self) -> Load | None:
        """What the last whole window showed; None before there was one."""
        return self._latest

    def restart(self) -> None:
        """What has happened since the last look says nothing about the load: an evaluation, say."""
        self._meter.restart(self._clock())

    def look(self, *, learning: bool, updated: bool) -> None:
        """To be asked all the time.

        Args:
            learning: whether the learner has an update under way.
            updated: whether an update has ended since the last look. A window ends with an update, so that the parts
                of one, waiting and learning, are seen as often as each other.
        """
        ready = self._pool.ready
        seats = ready * self._settings.games_per_actor
        games = self._pool.games_in_flight
        self._meter.look(self._clock(), actors=ready, games=games, seats=seats, learning=learning)
        seconds = self._meter.seconds()
        if seconds < self._settings.scale_every_s or not (
            updated or seconds >= LONGEST_WINDOW * self._settings.scale_every_s
        ):
            return
        load = self._meter.load()
        self.restart()
        if load is None:
            return
        self._latest = load
        if self._scaler.most == self._scaler.least:
            return
        wanted = self._scaler.decide(load)
        if wanted != self.wanted:
            self._log(
                f"{wanted} rollout actors wanted instead of {self.wanted}: the learner is busy for {load.busy:.0%} of "
                f"the time, {load.taken:.0%} of the actors' seats are taken"
            )
            self.wanted = wanted
        self._pool.resize(wanted)


def useful_actors(config: Config) -> int:
    """More than this many actors would have empty seats: admission bounds the games in flight."""
    rollout = config.rollout
    in_flight = (rollout.max_staleness + 1) * config.learner.episodes_per_update
    return math.ceil(in_flight / rollout.games_per_actor)
