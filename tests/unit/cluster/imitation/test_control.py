"""The control imitates for as long as training took: in further passes, or over further games of the teacher."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import cluster.imitation.process
import cluster.imitation.warm_start
from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.errors import RunError
from cluster.imitation.control import CONTROL, make_control
from cluster.imitation.process import _Rank
from cluster.runs.imitation_report import REPORT, ImitationReport, ImitationTask, read_report

GAMES, EPOCHS, TOOK_S = 40, 5, 10.0


class Display:
    """Keeps what would be shown."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, text: str) -> None:
        self.lines.append(text)

    def stage(self, name: str, total: int) -> None:
        pass

    def advance(self, steps: int) -> None:
        pass


def config(control: str, **changes: Any) -> Config:
    settings = {"games": GAMES, "epochs": EPOCHS, "teacher": "random", "processes": 1, "control": control, **changes}
    return load_config({"task": {"name": "kuhn"}, "run": {"seed": 3}, "imitation": settings})


def report(task: ImitationTask, seconds: float = TOOK_S) -> ImitationReport:
    return ImitationReport("random", task.settings.games, 0, 100, 10, 1.0, (0.9, 0.8), 1.0, seconds, task.digest)


@pytest.fixture
def imitated(tmp_path: Path) -> Path:
    folder = tmp_path / "imitated"
    folder.mkdir()
    write_report(folder, report(ImitationTask.of(config("same"))))
    return folder


def write_report(folder: Path, document: ImitationReport) -> None:
    (folder / REPORT).write_text(json.dumps(asdict(document)))


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[ImitationTask]:
    """The imitations that were asked for, each of which leaves its report and nothing else."""
    asked: list[ImitationTask] = []

    def imitate(task: ImitationTask, folder: Path, add_bar: object) -> ImitationReport:
        asked.append(task)
        folder.mkdir()
        write_report(folder, made := report(task))
        return made

    monkeypatch.setattr(cluster.imitation.warm_start, "imitate", imitate)
    return asked


def control(settings: Config, imitated: Path, training_s: float) -> Display:
    display: Any = Display()
    make_control(settings, imitated, imitated.parent / CONTROL, training_s, display)
    return display


@pytest.mark.parametrize(
    ("training_s", "passes"), [(0.0, 1), (0.5, 1), (2.0, 1), (3.1, 2), (10.0, 5), (24.9, 13), (10_000.0, 5000)]
)
def test_passes_follow_from_the_time_that_training_took(
    imitated: Path, tasks: list[ImitationTask], training_s: float, passes: int
) -> None:
    control(config("same"), imitated, training_s)
    [task] = tasks
    assert (task.settings.epochs, task.settings.games, task.first_game) == (passes, GAMES, 0)
    assert task.policy.path == str(imitated)
    kept = ("teacher", "learning_rate", "decisions_per_step", "held_out", "processes")
    assert all(getattr(task.settings, key) == getattr(config("same").imitation, key) for key in kept)


@pytest.mark.parametrize(("training_s", "games"), [(0.0, 8), (2.0, 8), (10.0, 40), (25.0, 104), (1000.0, 4000)])
def test_as_many_more_games_stand_for_the_passes(
    imitated: Path, tasks: list[ImitationTask], training_s: float, games: int
) -> None:
    control(config("fresh"), imitated, training_s)
    [task] = tasks
    assert (task.settings.games, task.settings.epochs, task.first_game) == (games, EPOCHS, GAMES)


def test_a_line_says_that_the_control_was_too_short(imitated: Path, tasks: list[ImitationTask]) -> None:
    slower = [line for line in control(config("same"), imitated, 10.0).lines if "fair control" in line]
    assert tasks
    assert slower == []
    (imitated.parent / CONTROL).rename(imitated.parent / "first")
    (line,) = [line for line in control(config("same"), imitated, 12.0).lines if "fair control" in line]
    assert line.startswith("the control imitated for 10 s and training took 12 s: ")


def test_each_process_has_games_to_learn_from_and_to_measure_on(imitated: Path, tasks: list[ImitationTask]) -> None:
    control(config("fresh", processes=16), imitated, 0.0)
    assert tasks[0].settings.games == 2 * 16


def test_an_imitation_that_took_no_time_is_no_division_by_zero(imitated: Path, tasks: list[ImitationTask]) -> None:
    write_report(imitated, report(ImitationTask.of(config("same")), seconds=0.0))
    control(config("same"), imitated, 1.0)
    assert tasks[0].settings.epochs == 5000  # as if it had taken a thousandth of a second


def numbers(task: ImitationTask, monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """The number and the seed of every game that an imitation plays."""
    played: dict[int, int] = {}

    async def demonstrate(world: object, settings: object, tokens: object, number: int, seed: int) -> list[Any]:
        played[number] = seed
        return []

    class Connection:
        def send(self, message: object) -> None:
            pass

    monkeypatch.setattr(cluster.imitation.process, "demonstrate_game", demonstrate)
    connection: Any = Connection()
    small = task.policy.model_copy(update={"path": None, "hidden_size": 32, "layers": 1, "intermediate_size": 32})
    games: Iterator[Any] = _Rank(replace(task, policy=small), 0, connection)._played_games()
    assert all(not turns for turns in games)
    return played


def test_fresh_games_are_others_than_those_that_were_imitated(
    imitated: Path, tasks: list[ImitationTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    control(config("fresh"), imitated, 12.0)
    before = numbers(ImitationTask.of(config("fresh")), monkeypatch)
    fresh = numbers(tasks[0], monkeypatch)
    assert list(before) == list(range(GAMES))
    assert list(fresh) == list(range(GAMES, GAMES + 48))
    assert set(before.values()).isdisjoint(fresh.values())


def test_the_same_games_are_imitated_again(
    imitated: Path, tasks: list[ImitationTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    control(config("same"), imitated, 12.0)
    assert numbers(tasks[0], monkeypatch) == numbers(ImitationTask.of(config("same")), monkeypatch)


@pytest.mark.parametrize("kind", ["same", "fresh"])
def test_a_control_with_the_same_settings_is_kept(imitated: Path, tasks: list[ImitationTask], kind: str) -> None:
    control(config(kind), imitated, 12.0)
    marked = imitated.parent / CONTROL / "weights"
    marked.touch()
    display = control(config(kind), imitated, 12.0)
    assert len(tasks) == 1
    assert marked.exists()
    assert "made with the same settings before" in display.lines[0]


def test_a_control_of_another_length_or_kind_is_made_again(imitated: Path, tasks: list[ImitationTask]) -> None:
    control(config("same"), imitated, 12.0)
    (imitated.parent / CONTROL / "weights").touch()
    (imitated.parent / f".{CONTROL}.draft-1-host").mkdir()
    control(config("same"), imitated, 60.0)
    control(config("fresh"), imitated, 60.0)
    control(config("fresh", learning_rate=1e-4), imitated, 60.0)
    assert len(tasks) == 4
    assert len({task.digest for task in tasks}) == 4
    assert not (imitated.parent / CONTROL / "weights").exists()
    assert not list(imitated.parent.glob(".*draft*"))
    made = read_report(imitated.parent / CONTROL)
    assert made is not None
    assert made["made_from"] == tasks[-1].digest


def test_which_control_is_wanted_does_not_change_what_is_imitated_first() -> None:
    digests = {ImitationTask.of(config(kind)).digest for kind in ("none", "same", "fresh")}
    assert len(digests) == 1


def test_without_a_report_there_is_nothing_to_go_on_from(tmp_path: Path, tasks: list[ImitationTask]) -> None:
    with pytest.raises(RunError, match="has no report of the imitation, which the control goes on from") as caught:
        control(config("same"), tmp_path / "imitated", 12.0)
    assert "\n" not in str(caught.value)
    (tmp_path / "imitated").mkdir()
    (tmp_path / "imitated" / REPORT).write_text('{"training_seconds": "long"}')
    with pytest.raises(RunError, match="is damaged"):
        control(config("same"), tmp_path / "imitated", 12.0)
    assert not tasks
