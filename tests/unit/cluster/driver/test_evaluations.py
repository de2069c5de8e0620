"""Evaluations during training: what they leave out of the throughput, and which ones a resumed run makes."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from cluster.actors.messages import UpdateReport
from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.driver import evaluations, metrics_recorder, run_summary, training
from cluster.driver.metrics_recorder import MetricsRecorder
from cluster.runs.folder import RunFolder
from cluster.runtime.replay.server_watch import ServerWatch
from services.environments.evaluation import EvaluationGame, EvaluationResult
from services.metrics.display.display import Display
from services.metrics.jsonl import read_metrics
from services.metrics.prometheus_exporter import Exporter
from tests.diplomacy_rows import result, row

EVERY = load_config(
    "smoke",
    ("learner.updates=4", "evaluation.every=2", "evaluation.against=['random','greedy']",
     "evaluation.final_against=['dumbbot']"),
)  # fmt: skip
DECISIONS_A_SECOND, TOKENS_A_DECISION = 50.0, 8.0


class Clock:
    """Simulated time, for the recorder and the summary."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        for module in (metrics_recorder, run_summary):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now, time=time.time))


class Pool:
    """A pool whose engines decide at one speed; ``evaluate`` takes as long as it is told."""

    size, restarts, swap_failures = 1, 0, {}

    def __init__(self, clock: Clock, evaluation_s: float = 0.0) -> None:
        self.played: list[str] = []  # opponents of the evaluations, in order
        self.dies_before: str | None = None  # the evaluation against this opponent is cut short
        self._clock = clock
        self._start = clock.now
        self._evaluation_s = evaluation_s
        self._games = 0.0
        self.watch: Callable[[], object] = lambda: None  # called during an evaluation

    def broadcast(self, weights: object, version: int) -> None:
        pass

    def stats(self) -> dict[str, float]:
        seconds = self._clock.now - self._start
        decisions = DECISIONS_A_SECOND * seconds
        return {
            "decisions": decisions, "completion_tokens": TOKENS_A_DECISION * decisions, "busy_seconds": seconds,
            "games": self._games,
        }  # fmt: skip

    def evaluate(
        self, games: Sequence[EvaluationGame], progress: Callable[[int], None], timeout_s: float
    ) -> list[EvaluationResult]:
        against = games[0].against
        if against == self.dies_before:
            raise KeyboardInterrupt
        self.played.append(against)
        self.watch()
        self._clock.now += self._evaluation_s
        self._games += 3  # training games that were in flight
        return [result(game.role, 4, top=True, squares=0.2) for game in games]


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    made = Exporter(0)
    yield made
    made.close()


def run_of(folder: Path, pool: Pool, exporter: Exporter | None = None, version: int = 0, config: Config = EVERY) -> Any:
    display = Display(4, enabled=False, console=Console(file=io.StringIO()))
    recorder = MetricsRecorder(
        config, RunFolder(folder), display, version if RunFolder(folder).summary.exists() else None, exporter
    )
    league = SimpleNamespace(snapshot_due=lambda version: None, change_members=lambda *_: [], updated=lambda _: {})
    parts: Any = (config, RunFolder(folder), None, (), pool, SimpleNamespace(), league, recorder)
    return training.TrainingRun(*parts, ServerWatch({}, 900.0, display.log), version)


def report(version: int) -> UpdateReport:
    return UpdateReport(
        version=version, metrics={"entente_loss": 0.1}, roles={}, episodes=14, stale_episodes=0, tokens=1000,
        busy_s=4.0, defective_orders=0, truncated=0, weight_bytes=5,
        buffer={"waiting": 0, "delivered": 0, "bytes": 0, "duplicates": 0, "poison": 0},
    )  # fmt: skip


def served(exporter: Exporter) -> dict[str, float]:
    families = text_string_to_metric_families(generate_latest(exporter.registry).decode())
    return {sample.name: sample.value for family in families for sample in family.samples}


def test_evaluations_count_neither_as_time_nor_as_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exporter: Exporter
) -> None:
    clock = Clock(monkeypatch)
    pool = Pool(clock, evaluation_s=300.0)
    during: list[float] = []
    pool.watch = lambda: during.append(served(exporter)["entente_evaluating"])
    run = run_of(tmp_path, pool, exporter)
    with run.recorder as recorder:
        training.evaluate_due(run)  # the untrained policy
        recorder.training_begins()
        for version in range(1, 5):
            clock.now += 10.0
            recorder.played(14)
            training.finish_update(run, report(version), None)
            if version == 2:  # training games that ended during the evaluation
                recorder.played(6)
        recorder.training_ends()
        training.evaluate_due(run)
        found = served(exporter)
    assert pool.played == ["random", "greedy", "random", "greedy", "random", "greedy", "dumbbot"]
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["throughput"] == {
        "games_per_hour": 14 / 10 * 3600,
        "decisions_per_second": DECISIONS_A_SECOND,
        "completion_tokens_per_second": DECISIONS_A_SECOND * TOKENS_A_DECISION,
        "learner_tokens_per_second": 100.0,
    }
    assert summary["games"] == 4 * 14 + 6
    lines = [line for line in read_metrics(tmp_path / "metrics.jsonl") if "entente_updates_total" in line.metrics]
    assert [line.metrics["entente_run_seconds_total"] for line in lines] == [10.0, 20.0, 30.0, 40.0]
    assert [line.metrics["entente_update_seconds"] for line in lines] == [10.0] * 4
    # The boards divide the engines' counters by the run's seconds.
    assert found["entente_run_seconds_total"] == 40.0
    assert found["entente_evaluating"] == 0
    assert during == [1.0] * 7
    assert found["entente_decisions_total"] == 40.0 * DECISIONS_A_SECOND
    assert found["entente_rollout_busy_seconds_total"] == 40.0
    assert found["entente_games_total"] == 4 * 14 + 6
    shown = recorder.display._console.file.getvalue()
    assert shown.count("decisions/s 50 | tokens/s 400 | learner tokens/s 100") == 4


def test_an_evaluation_that_was_cut_short_is_made_after_a_resume_and_only_that_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)

    def trained(version: int, to: int, dies_before: str | None = None) -> list[str]:
        """One process, from a version to the end or the evaluation that is cut short; what it evaluated."""
        pool = Pool(clock)
        pool.dies_before = dies_before
        run = run_of(tmp_path, pool, version=version)
        try:
            with run.recorder as recorder:
                training.evaluate_due(run)
                recorder.training_begins()
                for update in range(version + 1, to + 1):
                    training.finish_update(run, report(update), None)
                recorder.training_ends()
                training.evaluate_due(run)
        except KeyboardInterrupt:
            pass
        return pool.played

    assert trained(0, 2, dies_before="greedy") == ["random"]
    assert trained(0, 1) == ["greedy"]
    assert trained(1, 2, dies_before="random") == []
    assert trained(2, 3) == ["random", "greedy"]
    # A crash undid update 2 and its evaluation, which described weights that are no more.
    assert trained(1, 3) == ["random", "greedy"]
    assert trained(3, 4, dies_before="dumbbot") == ["random", "greedy"]
    assert trained(4, 4) == ["dumbbot"]
    assert trained(4, 4) == []
    rows = json.loads((tmp_path / "summary.json").read_text())["evaluations"]
    assert [(row["label"], row["checkpoint"], row["against"]) for row in rows] == [
        ("untrained", "checkpoints/0", "random"),
        ("untrained", "checkpoints/0", "greedy"),
        ("v2", "checkpoints/2", "random"),
        ("v2", "checkpoints/2", "greedy"),
        ("trained", "checkpoints/4", "random"),
        ("trained", "checkpoints/4", "greedy"),
        ("trained", "checkpoints/4", "dumbbot"),
    ]


def test_an_evaluation_with_other_games_or_as_the_last_one_is_due_again(tmp_path: Path) -> None:
    def evaluated(*settings: str, version: int = 2) -> list[str]:
        pool = SimpleNamespace(stats=lambda: {"games": 0.0}, played=[])
        config = load_config("smoke", ("learner.updates=2", "evaluation.every=2", *settings))
        run = run_of(tmp_path, pool, version=version, config=config)  # type: ignore[arg-type]
        pool.evaluate = lambda games, *_: (
            pool.played.append(len(games)) or [result(game.role, 4, top=True, squares=0.2) for game in games]
        )
        with run.recorder:
            training.evaluate_due(run)
        labels = [row["label"] for row in json.loads((tmp_path / "summary.json").read_text())["evaluations"]]
        return [*pool.played, *labels]

    assert evaluated("learner.updates=4") == [7, "v2"]
    assert evaluated() == [7, "trained"]  # the run was cut to two updates
    assert evaluated("learner.updates=4") == ["trained"]
    assert evaluated("evaluation.games_per_country=2") == [14, "trained"]
    assert evaluated("evaluation.games_per_country=2", "evaluation.until_year=1903") == [14, "trained"]


def test_the_trained_policy_is_evaluated_once_more_without_its_letters(tmp_path: Path) -> None:
    config = load_config("press", ("learner.updates=1", "evaluation.games_per_country=1"))
    assert evaluations.due_evaluations(config, 0) == [("imitated", "honest"), ("imitated", "breaker")]
    muted: list[tuple[str, bool]] = []

    def evaluate(games: Sequence[EvaluationGame], *_: object) -> list[EvaluationResult]:
        muted.extend({(game.against, game.is_muted) for game in games})
        letters = dict.fromkeys((measure.outcome for measure in config.world.measures), 0.5) | {"promises": 2.0}
        return [EvaluationResult(game.role, game.number, letters) for game in games]

    def made() -> Sequence[str]:
        pool: Any = SimpleNamespace(stats=lambda: {"games": 0.0}, evaluate=evaluate)
        run = run_of(tmp_path, pool, version=1, config=config)
        muted.clear()
        with run.recorder:
            training.evaluate_due(run)
        return [against for against, _ in muted]

    assert made() == ["honest", "breaker"] * 2
    assert muted == [("honest", False), ("breaker", False), ("honest", True), ("breaker", True)]
    assert made() == [], "all are recorded"
    press = json.loads((tmp_path / "summary.json").read_text())["press"]
    assert {label: list(rows) for label, rows in press.items()} == {
        "trained": ["honest", "breaker"], "muted": ["honest", "breaker"],
    }  # fmt: skip
    assert press["muted"]["honest"]["honesty"] == 0.5


def test_policies_beside_the_checkpoints_are_evaluated_once_under_their_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy before it imitated, and the control that only imitated."""
    config = load_config("smoke", ("learner.updates=1", "imitation.games=2", "imitation.control=same"))
    asked: list[tuple[str, str, tuple[str, ...]]] = []
    controls: list[float] = []

    def evaluate_folder(
        config: Config, against: Sequence[str], label: str, candidate: Path, stage: object, record: Callable[..., None]
    ) -> None:
        asked.append((label, str(candidate.relative_to(tmp_path)), tuple(against)))
        for name in against:
            played = [result(power, 4) for power in config.world.roles]
            record(label, row(played, checkpoint=str(candidate), against=name, until_year=1902), 1.0)

    monkeypatch.setattr(evaluations, "evaluate_folder", evaluate_folder)
    monkeypatch.setattr(
        evaluations, "make_control", lambda config, imitated, folder, seconds, _: controls.append(seconds)
    )
    clock = Clock(monkeypatch)
    run = run_of(tmp_path, Pool(clock), config=config)
    with run.recorder as recorder:
        training.evaluate_due(run)
        recorder.training_begins()
        clock.now += 10.0
        training.finish_update(run, report(1), None)
        recorder.training_ends()
        training.evaluate_due(run)
    resumed = run_of(tmp_path, Pool(clock), version=1, config=config)
    with resumed.recorder:
        assert not training.evaluate_due(resumed)
    rows = json.loads((tmp_path / "summary.json").read_text())["evaluations"]
    assert [(each["label"], each["checkpoint"]) for each in rows] == [
        ("untrained", "imitated/untrained"),
        ("imitated", "checkpoints/0"),
        ("trained", "checkpoints/1"),
        ("control", "control"),
    ]
    assert asked == [("untrained", "imitated/untrained", ("random",)), ("control", "control", ("random",))]
    assert controls == [10.0]
