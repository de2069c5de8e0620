"""What a run serves to Prometheus besides its lines of metrics.jsonl."""

from __future__ import annotations

import io
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from cluster.actors.messages import UpdateReport
from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.driver import metrics_recorder
from cluster.driver.metrics_recorder import MetricsRecorder
from cluster.errors import LostError
from cluster.runs.folder import RunFolder
from grpo_core.errors import DivergenceError, StorageError
from services.metrics.display.display import Display
from services.metrics.jsonl import read_metrics
from services.metrics.prometheus_exporter import Exporter
from services.metrics.trackers.client import Trackers
from tests.measured import DIPLOMACY

SMOKE = load_config("smoke")
NONFINITE = "entente_nonfinite_updates_total"


@pytest.fixture(scope="module")
def server() -> Iterator[Exporter]:
    """Shared by all tests: closing it takes half a second."""
    made = Exporter(0)
    yield made
    made.close()


@pytest.fixture
def exporter(server: Exporter) -> Exporter:
    """The recorder, reset to its initial state."""
    server._values.numbers.clear()
    return server


def served(exporter: Exporter) -> dict[str, float]:
    """What a scrape would find; labels other than the country are left out."""
    families = text_string_to_metric_families(generate_latest(exporter.registry).decode())
    return {
        sample.name + "".join(sorted(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def progress_of(
    folder: Path, exporter: Exporter, resume_after: int | None = None, config: Config = SMOKE
) -> MetricsRecorder:
    display = Display(4, enabled=False, console=Console(file=io.StringIO()))
    return MetricsRecorder(config, RunFolder(folder), display, resume_after, exporter)


def report(version: int, **more: object) -> UpdateReport:
    known = {
        "metrics": {"entente_loss": 0.1}, "roles": {}, "episodes": 14, "stale_episodes": 0, "tokens": 10,
        "busy_s": 1.0, "defective_orders": 0, "truncated": 0, "weight_bytes": 5,
        "buffer": {"waiting": 0, "delivered": 0, "bytes": 0, "duplicates": 0, "poison": 0},
    }  # fmt: skip
    return UpdateReport(version=version, **(known | more))  # type: ignore[arg-type]


def test_alert_limits_are_served_before_the_first_update(tmp_path: Path, exporter: Exporter) -> None:
    with progress_of(tmp_path, exporter):
        found = served(exporter)
        assert found["entente_updates_planned"] == SMOKE.learner.updates
        assert found["entente_update_timeout_seconds"] == SMOKE.rollout.update_timeout_s
        assert found["entente_staleness_updates_limit"] == SMOKE.rollout.max_staleness
        assert found["entente_worker_replacements_left"] == SMOKE.rollout.max_replacements
        assert found["entente_updates_total"] == found[NONFINITE] == 0
    assert read_metrics(tmp_path / "metrics.jsonl") == []


def test_an_updates_metrics_include_its_time_and_memory(tmp_path: Path, exporter: Exporter) -> None:
    before = time.time()
    with progress_of(tmp_path, exporter) as progress:
        progress.update(report(1, role_episodes={"FRANCE": 2}, memory={"used": 7.0, "limit": 9.0}), 1, 3, {}, {})
        progress.update(report(2, role_episodes={"FRANCE": 2, "ITALY": 1}), 1, 3, {}, {})
        found = served(exporter)
    assert before <= found["entente_progress_timestamp_seconds"] <= time.time()
    assert found["entente_country_episodes_totalFRANCE"] == 4
    assert found["entente_country_episodes_totalITALY"] == 1
    assert (found["entente_buffer_server_bytes"], found["entente_buffer_server_bytes_limit"]) == (7, 9)


def test_workers_are_served_when_they_change_and_recorded_with_the_update(tmp_path: Path, exporter: Exporter) -> None:
    with progress_of(tmp_path, exporter) as progress:
        progress.workers(2, 4, 17)
        assert served(exporter)["entente_worker_replacements_left"] == 17
        assert (served(exporter)["entente_workers_playing"], served(exporter)["entente_workers_wanted"]) == (2, 4)
        progress.update(report(1), 3, 0, {}, {})
        progress.workers(4, 4, 17)
        assert served(exporter)["entente_workers_playing"] == 4
    (line,) = read_metrics(tmp_path / "metrics.jsonl")
    assert [line.metrics[f"entente_workers{name}"] for name in ("", "_playing", "_wanted")] == [3, 2, 4]


def test_non_finite_metrics_are_counted_and_named(tmp_path: Path, exporter: Exporter) -> None:
    with progress_of(tmp_path, exporter) as progress:
        progress.update(report(1, nonfinite=("entente_ratio_max",)), 1, 0, {}, {})
        progress.update(report(2), 1, 0, {}, {})
        assert served(exporter)[NONFINITE] == 1
    assert "entente_ratio_max" in progress.display._console.file.getvalue()  # type: ignore[attr-defined]


def test_a_figure_of_the_league_that_is_not_finite_is_left_out_and_counted(tmp_path: Path, exporter: Exporter) -> None:
    nan = {"entente_promotions_total": math.nan, "entente_population_size{state=active}": 3.0}
    with progress_of(tmp_path, exporter) as progress:
        progress.update(report(1, nonfinite=("entente_ratio_max",)), 1, 0, {}, nan)
    (line,) = read_metrics(tmp_path / "metrics.jsonl")
    assert line.metrics[NONFINITE] == 1
    assert line.metrics["entente_population_size{state=active}"] == 3
    assert "entente_promotions_total" not in line.metrics
    shown = progress.display._console.file.getvalue()  # type: ignore[attr-defined]
    assert "left out: entente_promotions_total, entente_ratio_max" in shown


def test_a_diverged_update_is_recorded_and_kept_across_a_resume(tmp_path: Path, exporter: Exporter) -> None:
    progress = progress_of(tmp_path, exporter)
    progress.update(report(1), 1, 0, {}, {})
    progress.update(report(2), 1, 0, {}, {})
    with pytest.raises(DivergenceError), progress:
        raise DivergenceError("the loss is nan")
    assert served(exporter)[NONFINITE] == 1
    assert read_metrics(tmp_path / "metrics.jsonl")[-1].metrics == {NONFINITE: 1}
    assert json.loads((tmp_path / "summary.json").read_text())["nonfinite_updates"] == 1
    # The checkpoint is older than the update that failed: lines behind it are cut.
    with progress_of(tmp_path, exporter, resume_after=1):
        assert served(exporter)[NONFINITE] == 1
    with pytest.raises(ZeroDivisionError), progress_of(tmp_path, exporter, resume_after=1):
        raise ZeroDivisionError  # some other end of a run is no update that diverged
    assert json.loads((tmp_path / "summary.json").read_text())["nonfinite_updates"] == 1


def test_a_summary_that_cannot_be_written_does_not_hide_the_error_that_ended_the_run(
    tmp_path: Path, exporter: Exporter
) -> None:
    (tmp_path / "summary.json").mkdir()
    with pytest.raises(StorageError, match=r"summary\.json"), progress_of(tmp_path, exporter):
        pass
    progress = progress_of(tmp_path, exporter)
    with pytest.raises(LostError, match="died"), progress:
        raise LostError("the learner died")
    assert "cannot write" in progress.display._console.file.getvalue()  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="closed file"):
        progress.update(report(1), 1, 0, {}, {})


def test_overlap_time_is_summed_over_updates_and_resumes(tmp_path: Path, exporter: Exporter) -> None:
    with progress_of(tmp_path, exporter) as progress:
        progress.overlapped(1.5)
        progress.overlapped(0.5)
        progress.update(report(1), 1, 0, {}, {})
    with progress_of(tmp_path, exporter, resume_after=1) as progress:
        progress.overlapped(1.0)
        progress.update(report(2), 1, 0, {}, {})
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert [line.metrics["entente_overlap_seconds_total"] for line in lines] == [2.0, 3.0]


def test_work_for_updates_lost_in_a_crash_stays_counted(tmp_path: Path, exporter: Exporter) -> None:
    # Games lie in the buffer and are not played again, calls were paid for, workers did die; updates are made again.
    with progress_of(tmp_path, exporter) as progress:
        for version in (1, 2, 3):
            progress.played(5)
            progress.engine({"decisions": 100.0 * version})
            progress.update(report(version, role_episodes={"ITALY": 2}), 1, version, {"died": version}, {})
        progress.played(5)  # for an update that did not come
    exporter._values.numbers.clear()  # the next process has its own
    with progress_of(tmp_path, exporter, resume_after=1) as progress:
        found = served(exporter)
        assert found["entente_updates_total"] == 1
        # To Prometheus a counter that falls is a new one, all of which it adds to what it had.
        assert (found["entente_episodes_total"], found["entente_country_episodes_totalITALY"]) == (42, 6)
        assert (found["entente_games_total"], found["entente_decisions_total"]) == (20, 300)
        assert (found["entente_worker_restarts_total"], found["entente_swap_failures_totaldied"]) == (3, 3)
        progress.update(report(2), 1, 1, {}, {})
        assert served(exporter)["entente_worker_restarts_total"] == 4
        assert served(exporter)["entente_episodes_total"] == 42
        for version in (3, 4):
            progress.update(report(version), 1, 1, {}, {})
        assert served(exporter)["entente_episodes_total"] == 56
    assert json.loads((tmp_path / "summary.json").read_text())["games"] == 20
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert [(line.update, line.metrics["entente_episodes_total"]) for line in lines] == [
        (1, 14),
        (2, 28),
        (3, 42),
        (4, 56),
    ]


class _Trackers(Trackers):
    """Trackers whose end fails."""

    def close(self, timeout_s: float = 0.0) -> None:
        raise ChildProcessError


def test_the_lines_are_closed_whatever_the_trackers_do(
    tmp_path: Path, exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_recorder, "_open_trackers", lambda *_: _Trackers(()))
    with pytest.raises(ChildProcessError), progress_of(tmp_path, exporter) as progress:
        pass
    with pytest.raises(ValueError, match="closed file"):
        progress.update(report(1), 1, 0, {}, {})


def test_a_start_that_fails_has_opened_no_trackers(
    tmp_path: Path, exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Trackers] = []

    def open_trackers(*_: object) -> Trackers:
        opened.append(Trackers(()))
        return opened[-1]

    monkeypatch.setattr(metrics_recorder, "_open_trackers", open_trackers)
    with progress_of(tmp_path, exporter) as progress:
        progress.update(report(1), 1, 0, {}, {})
    assert len(opened) == 1

    def unreadable(_: Path) -> list[float]:
        raise StorageError("unreadable")

    monkeypatch.setattr(metrics_recorder, "restarts", unreadable)
    with pytest.raises(StorageError, match="unreadable"):
        progress_of(tmp_path, exporter, resume_after=1)
    assert len(opened) == 1


def evaluated(row: dict[str, Any], config: Config, folder: Path, exporter: Exporter) -> tuple[str, dict[str, float]]:
    """What one evaluation prints, and what is served of it."""
    with progress_of(folder, exporter, config=config) as progress:
        progress.evaluation("trained", row, 1.0)
        text = progress.display._console.file.getvalue()  # type: ignore[attr-defined]
        return text, served(exporter)


def test_an_evaluation_is_told_in_the_words_of_diplomacy(tmp_path: Path, exporter: Exporter) -> None:
    cell = {"games": 70, "mean_centers": 8.614, "mean_centers_ci95": [8.31, 8.91], "win_rate": 0.014}
    cell |= {"win_rate_ci95": [0.0, 0.08], "top_rate": 0.9, "top_rate_ci95": [0.8, 0.95], "survival_rate": 1.0}
    cell |= {"survival_rate_ci95": [0.95, 1.0], "sum_of_squares": 0.3, "sum_of_squares_ci95": [0.2, 0.4]}
    row = {
        "checkpoint": "checkpoints/0",
        "against": "random",
        "until_year": 1905,
        **cell,
        "by_country": {"ITALY": cell},
    }
    text, found = evaluated(row, SMOKE, tmp_path, exporter)
    assert (
        "trained policy against six random: 8.61 centres [8.31, 8.91], survived 100% [95,100], leads 90% [80,95], "
        "solos 1% [0,8] (70 games to 1905)"
    ) in " ".join(text.split())
    names = {name for name in found if name.startswith("entente_evaluation_")}
    assert names == {
        "entente_evaluation_centersrandom", "entente_evaluation_centers_lowrandom",
        "entente_evaluation_centers_highrandom", "entente_evaluation_mean_centersITALYrandom",
        "entente_evaluation_win_rateITALYrandom",
    }  # fmt: skip
    with progress_of(tmp_path, exporter, resume_after=0) as progress:
        assert progress._summary.start_values(DIPLOMACY) == {}, "no row is of the untrained policy"
