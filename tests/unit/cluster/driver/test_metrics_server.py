"""The exporter over a run's restarts and resumes: one port, no gap."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

import cluster.driver.training
from cluster.configs.loader import load_config
from cluster.driver.metrics_recorder import MetricsRecorder
from cluster.driver.metrics_server import MetricsServer
from cluster.driver.training import train
from cluster.errors import LostError, RunError
from cluster.runs.counters import while_loading
from cluster.runs.folder import RunFolder
from cluster.runs.restarts import keep_training
from grpo_core.errors import StorageError
from services.metrics.catalogue import MetricsError
from services.metrics.display.display import Display

CONFIG = load_config("smoke", ("metrics.display=false", "metrics.port=0"))


def scraped(port: int) -> dict[str, float]:
    """What Prometheus would find."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {sample.name: sample.value for family in families for sample in family.samples}


@pytest.fixture
def begun(tmp_path: Path) -> RunFolder:
    """A run with a checkpoint of version 2."""
    folder = RunFolder(tmp_path / "run")
    folder.open(CONFIG, resume=False)
    return folder


@pytest.fixture
def starting(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Exception]]:
    """What each start of ``train`` does in place of starting Ray; it ends with the error that this returns."""
    starts: list[Callable[[], Exception]] = []

    @contextmanager
    def replay_servers(*_: object) -> Iterator[tuple[str, ...]]:
        raise starts.pop(0)()
        yield ()

    monkeypatch.setattr(cluster.driver.training, "replay_servers", replay_servers)
    monkeypatch.setattr(cluster.driver.training, "check_memory", lambda _: None)
    monkeypatch.setattr(cluster.driver.training, "checkpoint_versions", lambda _: (0, 2))
    monkeypatch.setattr(RunFolder, "begun", True)
    return starts


def recorded(folder: RunFolder) -> int:
    return int(folder.metrics_port.read_text())


def test_a_port_in_a_file_that_never_ends_is_not_waited_for(begun: RunFolder) -> None:
    os.mkfifo(begun.metrics_port)
    with MetricsServer() as metrics, pytest.raises(StorageError, match="a FIFO"):
        metrics.open(CONFIG.metrics, "run", begun, print)


def test_metrics_of_a_resumed_run_are_served_before_it_has_loaded(
    begun: RunFolder, starting: list[Callable[[], Exception]]
) -> None:
    seen: list[dict[str, float]] = []

    def loading() -> Exception:
        seen.append(scraped(recorded(begun)))
        return RunError("far enough")

    starting.append(loading)
    with pytest.raises(RunError, match="far enough"):
        train(CONFIG, begun.path, resume=True)
    assert seen[0]["entente_updates_total"] == 2
    assert seen[0]["entente_updates_planned"] == CONFIG.learner.updates
    assert while_loading((), CONFIG.learner.updates, CONFIG.rollout) == {}


def test_the_exporter_keeps_its_port_and_answers_while_a_run_starts_again(
    begun: RunFolder, starting: list[Callable[[], Exception]]
) -> None:
    ports: list[int] = []

    def running(error: Exception) -> Callable[[], Exception]:
        def start() -> Exception:
            ports.append(recorded(begun))
            assert scraped(ports[-1])["entente_updates_total"] == 2
            return error

        return start

    starting += [running(LostError("the learner died")), running(LostError("again")), running(RunError("a bug"))]
    pauses: list[dict[str, float]] = []
    with MetricsServer() as metrics, pytest.raises(RunError, match="a bug"):
        keep_training(
            lambda resume: train(CONFIG, begun.path, resume=resume, metrics=metrics),
            begun.path,
            resume=True,
            max_restarts=3,
            say=lambda text: None,
            sleep=lambda seconds: pauses.append(scraped(recorded(begun))),
        )
    assert len(ports) == 3
    assert len(set(ports)) == 1
    assert [found["entente_updates_total"] for found in pauses] == [2, 2]


def test_a_resumed_run_serves_at_its_old_port_unless_that_is_taken(tmp_path: Path) -> None:
    folder, said = RunFolder(tmp_path), list[str]()
    with MetricsServer() as first:
        exporter = first.open(CONFIG.metrics, "run", folder, said.append)
        assert exporter is not None
        port = exporter.port
        with MetricsServer() as second:  # another run's folder, copied with its port
            other = second.open(CONFIG.metrics, "run", folder, said.append)
            assert other is not None
            assert recorded(folder) == other.port != port
            assert said == [
                f"port {port}, where this run served its metrics before, cannot be used now; a free one is taken"
            ]
            assert scraped(port) == scraped(other.port) == {}
    with MetricsServer() as third:
        again = third.open(CONFIG.metrics, "run", folder, said.append)
        assert again is not None
        assert again.port == recorded(folder) == other.port
    assert len(said) == 1
    folder.metrics_port.write_text("torn")
    with MetricsServer() as fourth:
        assert fourth.open(CONFIG.metrics, "run", folder, said.append) is not None
    assert len(said) == 1


def test_a_port_that_the_config_names_is_neither_recorded_nor_replaced(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with socket.socket() as taken, MetricsServer() as metrics:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        fixed = CONFIG.metrics.model_copy(update={"port": taken.getsockname()[1]})
        with pytest.raises(MetricsError, match="cannot be used"):
            metrics.open(fixed, "run", folder, print)
    with MetricsServer() as metrics:
        assert metrics.open(CONFIG.metrics.model_copy(update={"port": None}), "run", folder, print) is None
    assert not folder.metrics_port.exists()


def test_values_of_a_lost_run_stay_but_none_of_its_workers_play(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    row = {"checkpoint": "checkpoints/0", "against": "random", "games": 7, "until_year": 1902, "mean_centers": 4.5,
           "mean_centers_ci95": [4.0, 5.0], "survival_rate": 1.0, "survival_rate_ci95": [0.9, 1.0], "top_rate": 0.0,
           "top_rate_ci95": [0.0, 0.1], "win_rate": 0.0, "win_rate_ci95": [0.0, 0.1], "by_country": {}}  # fmt: skip
    with MetricsServer() as metrics:
        exporter = metrics.open(CONFIG.metrics, "run", folder, print)
        assert exporter is not None
        display = Display(4, enabled=False, console=Console(file=io.StringIO()))
        with suppress(LostError), MetricsRecorder(CONFIG, folder, display, None, exporter) as recorder:
            recorder.workers(2, 2, 20)
            recorder.evaluation("untrained", row, 1.0)
            recorder.played(3)
            raise LostError("the learner died")
        found = scraped(exporter.port)
        assert (found["entente_workers_playing"], found["entente_games_total"]) == (0, 3)
    # The next process shows the evaluations of earlier ones.
    with MetricsServer() as metrics:
        exporter = metrics.open(CONFIG.metrics, "run", folder, print)
        assert exporter is not None
        with MetricsRecorder(CONFIG, folder, display, 0, exporter):
            found = scraped(exporter.port)
    assert found["entente_evaluation_centers"] == 4.5
    assert (found["entente_evaluation_centers_low"], found["entente_evaluation_centers_high"]) == (4.0, 5.0)
