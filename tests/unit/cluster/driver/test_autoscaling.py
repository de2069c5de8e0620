"""The number of rollout actors that autoscaling asks for, in simulated runs with a known optimum and single cases."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.driver.autoscaling import DOWN_AFTER, UP_AFTER, Autoscaler, Load, LoadMeter, Scaling, useful_actors
from cluster.errors import ConfigError


def config(*overrides: str) -> Config:
    wide = ("rollout.games_per_actor=8", "learner.episodes_per_update=64", "rollout.num_generations=8")
    return load_config("smoke", ("rollout.max_actors=16", *wide, *overrides))


def autoscaler(*overrides: str) -> Autoscaler:
    settings = config(*overrides)
    return Autoscaler(settings.rollout, settings.learner.episodes_per_update)


@dataclass
class Run:
    """A learner that takes ``learn_s`` an update, and actors that each play ``rate`` episodes a second.

    In seconds: actors play while admission lets them, the learner learns while there are episodes.
    """

    settings: Config
    learn_s: float
    rate: float
    nodes: int = 16
    ready: int = 1
    wanted: int = 1
    clock: float = 0.0
    stored: float = 0.0
    learning_s: float = 0.0
    games_in_flight: int = 0
    asked: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def resize(self, wanted: int) -> None:
        self.asked.append(wanted)
        self.wanted = wanted

    def play(self, seconds: int, noise: random.Random | None = None) -> Scaling:
        scaling = Scaling(
            self.settings.rollout,
            self.settings.learner.episodes_per_update,
            self,
            self.notes.append,
            lambda: self.clock,
        )
        update = self.settings.learner.episodes_per_update
        ahead = (self.settings.rollout.max_staleness + 1) * update
        for _ in range(seconds):
            self.clock += 1.0
            self.ready = min(self.wanted, self.nodes)
            seats = self.ready * self.settings.rollout.games_per_actor
            room = ahead - self.stored - (update if self.learning_s > 0 else 0)
            self.games_in_flight = int(max(0, min(seats, room)))
            factor = 1.0 if noise is None else noise.uniform(0.7, 1.3)
            self.stored += factor * self.rate * self.games_in_flight / self.settings.rollout.games_per_actor
            learning, updated = self.learning_s > 0, False
            if learning:
                self.learning_s -= 1.0
                updated = self.learning_s <= 0
            if self.learning_s <= 0 and self.stored >= update:
                self.stored -= update
                self.learning_s = self.learn_s
            scaling.observe(learning=learning, updated=updated)
        return scaling


@pytest.mark.parametrize(("learn_s", "rate", "best"), [(16, 1.0, 4), (8, 1.0, 8), (64, 1.0, 1), (10, 0.8, 8)])
def test_scaling_converges_to_the_number_at_which_neither_side_waits(learn_s: float, rate: float, best: int) -> None:
    run = Run(config(), learn_s, rate)
    scaling = run.play(3000)
    assert best <= run.wanted <= 1.5 * best + 1
    load = scaling.load
    assert load is not None
    assert load.busy > 0.7  # not 1: the last games of what admission allows leave seats empty
    settled = run.asked[len(run.asked) // 2 :]
    assert len(set(settled)) == 1, f"it goes on changing its mind: {settled}"


def test_noise_does_not_change_the_number_of_actors() -> None:
    run = Run(config(), 16, 1.0)
    run.play(6000, random.Random(3))
    changes = sum(before != after for before, after in zip(run.asked[40:], run.asked[41:], strict=False))
    assert changes <= 2
    assert 4 <= run.wanted <= 7


def test_idle_actors_are_removed_and_added_again_when_needed() -> None:
    run = Run(config(), 8, 1.0)
    run.play(2000)
    grown = run.wanted
    run.learn_s = 64
    run.play(4000)
    idle = run.wanted
    run.learn_s = 8
    run.play(3000)
    assert grown >= 8
    assert idle <= 2
    assert run.wanted >= 8


def test_the_number_of_actors_stays_between_its_minimum_and_the_useful_maximum() -> None:
    starving = Load(actors=3, taken=1.0, busy=0.0)
    idle = Load(actors=3, taken=0.0, busy=1.0)
    for overrides, most in (((), 16), (("rollout.max_actors=5",), 5), (("rollout.games_per_actor=32",), 4)):
        scaler = autoscaler("rollout.actors=3", *overrides)
        seen = [scaler.decide(Load(actors=scaler.decide(starving), taken=1.0, busy=0.0)) for _ in range(20)]
        assert max(seen) == most
        down = [scaler.decide(idle) for _ in range(20)]
        assert down[-1] == 3


def test_one_window_changes_nothing_and_a_step_at_most_doubles_the_actors() -> None:
    scaler = autoscaler("rollout.actors=2")
    starving = Load(actors=2, taken=1.0, busy=0.05)
    assert [scaler.decide(starving) for _ in range(UP_AFTER)] == [2] * (UP_AFTER - 1) + [4]
    idle = Load(actors=4, taken=0.1, busy=0.9)
    for _ in range(DOWN_AFTER - 1):
        assert scaler.decide(idle) == 4
    assert scaler.decide(Load(actors=4, taken=1.0, busy=1.0)) == 4
    for _ in range(DOWN_AFTER - 1):
        assert scaler.decide(idle) == 4, "windows that disagreed were not forgotten"
    assert scaler.decide(idle) == 2


def test_pending_actors_are_not_requested_again() -> None:
    run = Run(config(), 4, 1.0, nodes=2)
    run.play(3000)
    assert run.wanted == max(run.asked) == 4  # one step beyond what there is, not one a window


def test_the_load_meter_weighs_observations_by_time() -> None:
    meter = LoadMeter(10.0)
    assert meter.load() is None
    meter.observe(11.0, actors=0, games=0, seats=0, learning=False)
    assert meter.load() is None
    meter.observe(12.0, actors=2, games=4, seats=16, learning=True)
    meter.observe(14.0, actors=2, games=40, seats=16, learning=False)  # more than fit count as full
    load = meter.load()
    assert load == Load(actors=6 / 4, taken=(4 + 32) / 48, busy=1 / 4)
    assert load.needed == pytest.approx(1.25 * 1.5 * 0.75 / 0.25)
    meter.restart(20.0)
    assert meter.seconds() == 0.0


def test_a_bound_above_the_useful_number_is_reported_at_the_start() -> None:
    settings = config("rollout.games_per_actor=32", "rollout.max_staleness=1")
    assert useful_actors(settings.rollout, settings.learner.episodes_per_update) == 4
    run = Run(settings, 1, 1.0)
    run.play(1)
    (note,) = run.notes
    assert "at most 4 of rollout.max_actors = 16" in note


def test_the_number_of_actors_is_fixed_without_max_actors() -> None:
    settings = load_config("smoke", ("rollout.actors=2",))
    run = Run(settings, 1, 0.1, wanted=2)
    scaling = run.play(2000)
    assert not run.asked
    assert scaling.load is not None
    assert scaling.wanted == 2


def test_max_actors_below_actors_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"rollout.max_actors \(2\) is less than rollout.actors \(3\)"):
        config("rollout.actors=3", "rollout.max_actors=2")
