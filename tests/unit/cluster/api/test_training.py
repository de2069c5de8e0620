"""``train`` in a program that goes on: its signals, its interruption, and a Ray that is in use."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import entente
from cluster.runtime.local_ray import LOOPBACK_VARIABLE
from cluster.runtime.stop_signals import STOP_SIGNALS, check_stop, ignore_further_signals


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Callable[..., None]], None]:
    """Puts another function in the place of the training itself; nothing is started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cluster.runtime.local_ray.prepare_local_ray", lambda: None)
    monkeypatch.setattr("cluster.driver.training.check_machine", lambda config: None)
    monkeypatch.delitem(sys.modules, "ray")  # other tests have imported it

    def replace(train: Callable[..., None]) -> None:
        monkeypatch.setattr("cluster.driver.training.train", train)

    return replace


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in STOP_SIGNALS]


def begin(run_dir: Path) -> None:
    (run_dir / "checkpoints" / "0").mkdir(parents=True)
    (run_dir / "checkpoints" / "0" / "manifest.json").touch()


def test_a_run_is_trained_as_it_was_asked_for_and_returned(training: Any) -> None:
    asked = []
    training(lambda config, run_dir, *, resume, metrics: asked.append((config, run_dir, resume)))
    run = entente.train("smoke", overrides={"learner.updates": 2, "run.name": "mine"})
    assert run.path == Path("runs/mine")
    assert asked == [(entente.load_config("smoke", {"learner.updates": 2, "run.name": "mine"}), run.path, False)]

    async def cell() -> entente.Run:
        return entente.train(asked[0][0], Path("other"), overrides=["learner.updates=3"])

    assert asyncio.run(cell()).path == Path("other")
    assert asked[1][0].learner.updates == 3


def test_the_programs_own_signal_handlers_come_back(training: Any) -> None:
    inside = []

    def train(*_: object, **__: object) -> None:
        inside.extend(handlers())
        ignore_further_signals()

    training(train)
    before = handlers()
    hook = sys.unraisablehook
    entente.train("smoke")
    assert handlers() == before
    assert sys.unraisablehook is hook
    assert not set(inside) & {signal.SIG_DFL, signal.default_int_handler}


@pytest.mark.parametrize("begun", [True, False])
def test_an_interruption_says_how_to_go_on_and_is_forgotten_then(training: Any, begun: bool) -> None:
    def train(_: object, run_dir: Path, **__: object) -> None:
        if begun:
            begin(run_dir)
        os.kill(os.getpid(), signal.SIGTERM)
        check_stop()

    training(train)
    before = handlers()
    with pytest.raises(KeyboardInterrupt) as stopped:
        entente.train("smoke", "mine")
    expected = "saved; go on with entente.train(run_dir='mine', resume=True)"
    assert str(stopped.value) == (expected if begun else "stopped before there was anything to save; start it again")
    assert handlers() == before
    check_stop()  # the next run is not stopped by it


def test_another_thread_than_the_main_one_can_train(training: Any) -> None:
    threads = []

    def train(*_: object, **__: object) -> None:
        ignore_further_signals()
        threads.append(threading.current_thread())

    training(train)
    before = handlers()
    thread = threading.Thread(target=entente.train, args=("smoke",))
    thread.start()
    thread.join()
    assert threads == [thread]
    assert handlers() == before


@pytest.mark.parametrize(
    ("ray", "told", "expected"),
    [
        (SimpleNamespace(is_initialized=lambda: True), True, "call ray.shutdown() first"),
        (SimpleNamespace(is_initialized=lambda: False), False, f"set {LOOPBACK_VARIABLE}=0 before"),
        (SimpleNamespace(is_initialized=lambda: False), True, None),
    ],
)
def test_a_ray_that_is_in_use_or_listens_to_others_is_refused(
    training: Any, monkeypatch: pytest.MonkeyPatch, ray: SimpleNamespace, told: bool, expected: str | None
) -> None:
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.delenv(LOOPBACK_VARIABLE, raising=False)
    if told:
        monkeypatch.setenv(LOOPBACK_VARIABLE, "0")
    trained = []
    training(lambda *_, **__: trained.append(1))
    if expected is None:
        entente.train("smoke")
    else:
        with pytest.raises(entente.EntenteError) as error:
            entente.train("smoke")
        assert expected in str(error.value)
    assert trained == [1] * (expected is None)


def test_a_request_that_cannot_be_met_is_one_line(training: Any) -> None:
    training(lambda *_, **__: None)
    for arguments, message in (
        ({}, 'in Python entente.train("laptop")'),
        ({"config": 5}, "a configuration is a file"),
        ({"config": "smoke", "overrides": 5}, "give overrides as a list or a mapping"),
        ({"resume": True}, "name its folder with run_dir"),
        ({"config": "smoke", "overrides": {"learner.update": 1}}, "did you mean learner.updates?"),
        ({"config": {"learner": {"updates": "two"}}}, "learner.updates"),
        (
            {"run_dir": "nothing", "resume": True},
            "no run to resume in nothing (no config.toml); start one, without resume=",
        ),
        (
            {"resume": True, "start_or_resume": True},
            "resume=True goes on with a run, start_or_resume=True may start one",
        ),
    ):
        with pytest.raises(entente.EntenteError) as error:
            entente.train(**arguments)  # type: ignore[arg-type]
        assert message in str(error.value)
        assert "--" not in str(error.value)
