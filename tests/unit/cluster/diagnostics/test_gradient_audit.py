"""The audit of a run's gradient, on a run folder written by the learner."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from cluster.actors.audit_batch import load_last_batch
from cluster.actors.learner import LearnerWorker
from cluster.cli import app as cli
from cluster.configs.loader import dump_config, load_config
from cluster.diagnostics.gradient_audit import GradientAudit, NoGradientsError, audit_gradients
from cluster.runs.folder import RunFolder
from grpo_core.advantages.returns import sample_returns
from grpo_core.gradients.quality import TurnScores
from services.replay.memory_buffer import MemoryBuffer
from tests.unit.grpo_core.support.cases import episode_of, ragged_turn

SMALL = (
    "policy.hidden_size=32", "policy.layers=1", "policy.intermediate_size=32", "learner.minibatches=1",
    "learner.tokens_per_microbatch=1024", "learner.checkpoint_every=1", "learner.updates=2",
    "learner.keep_checkpoints=2", "learner.learning_rate=1e-4", "rollout.num_generations=4",
    "learner.episodes_per_update=84",
)  # fmt: skip
COUNTRIES = ("AUSTRIA", "FRANCE", "TURKEY")
OUTCOME = dict.fromkeys(("centers", "solo", "draw", "top", "survived", "final_year", "phases"), 1.0)


def block(number: int, games: int = 4) -> list:  # type: ignore[type-arg]
    """Games of one country against opponents whose strength decides most of the return."""
    role = COUNTRIES[number % 3]
    out = []
    for member in range(games):
        rng = np.random.default_rng([number, member])
        turns = [
            ragged_turn(rng, reward=float(rng.normal(3 * (number % 2), 0.5)), phase=phase, keys={"phase": phase})
            for phase in ("S1901M", "F1901M")
        ]
        episode = episode_of(tuple(turns), role=role, name=f"b{number:03d}/{member}")
        keys = {"country": role, "lineup": f"{role} {number % 2}"}
        out.append(dataclasses.replace(episode, keys=keys, outcome=OUTCOME, block_size=games))
    return out


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two updates of twelve blocks each."""
    path = tmp_path_factory.mktemp("run")
    config = load_config("smoke", [*SMALL, "grouping.keys=['country+phase', 'country']"])
    (path / "config.toml").write_text(dump_config(config))
    buffer = MemoryBuffer(group_timeout_s=60)
    worker = LearnerWorker(config, str(path), buffer, resume=False)
    for update in range(2):
        buffer.append([episode for number in range(12) for episode in block(12 * update + number)])
        worker.update(dict.fromkeys(COUNTRIES, 4), 5)
    worker.close()
    return path


def quiet(name: str, steps: int) -> Callable[[int], None]:
    return lambda done: None


def test_the_last_batch_is_grouped_by_every_method_at_the_weights_before_it(run: Path) -> None:
    steps: list[tuple[str, int]] = []
    said: list[str] = []
    threads = torch.get_num_threads()
    found = audit_gradients(
        run, ["country+lineup"], lambda *bar: steps.append(bar) or quiet(*bar), say=lambda text: said.append(text)
    )
    assert len(said) == 1
    assert re.fullmatch(r"75 more turns of \d+ ms: about \d+ (s|min)", said[0])
    assert torch.get_num_threads() == threads
    batch = load_last_batch(RunFolder(run))
    assert batch is not None
    assert batch.learner_version == 1
    assert {episode.block_id for episode in batch.episodes} == {f"b{number:03d}" for number in range(12, 24)}
    assert (found.batch_version, found.checkpoint) == (1, 1)
    assert (found.blocks, found.turns, found.turns_of_batch) == (12, 96, 96)
    assert steps == [("taking every turn's gradient", 96)]
    assert list(found.ways) == ["none", "batch", "declared chain", "country+phase", "country", "country+lineup"]
    assert found.reference == ("country+lineup", "country+phase", "country")
    # The line-up decides the return, so that its mean takes the noise away.
    deviations = {name: way.deviation.value for name, way in found.ways.items()}
    assert deviations["country+lineup"] < 0.7 * deviations["country+phase"] < 0.7 * deviations["none"]
    gain = found.ways["country+lineup"].effective_samples
    assert gain is not None
    assert gain.low > 1.5
    # Groups are of eight episodes, and the reference leaves one of them out: an eighth of what is no noise.
    assert 0 < found.ways["country+lineup"].bias.value < 1 / 8


def test_effective_samples_are_counted_against_the_mean_of_the_other_episodes(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = np.random.default_rng(0).normal(size=(96, 16)).astype(np.float32)
    scores = TurnScores(drawn, drawn[:, :0])
    monkeypatch.setattr("cluster.diagnostics.gradient_audit.turn_scores", lambda *given, **options: scores)
    seen = audit_gradients(run, [], quiet).ways["none"].effective_samples
    batch = load_last_batch(RunFolder(run))
    assert batch is not None
    learner = load_config(run / "config.toml").learner
    returns = sample_returns(batch.episodes, learner.returns, learner.discount).reshape(48, 2)
    others = np.array([np.delete(returns, episode, 0).mean() for episode in range(48)])
    blocks = [episode.block_id for episode in batch.episodes]

    def variance(advantages: np.ndarray) -> float:  # type: ignore[type-arg]
        by_episode = (advantages[..., None] * drawn.reshape(48, 2, 16)).sum(1)
        by_block = [by_episode[[each == block for each in blocks]].sum(0) for block in sorted(set(blocks))]
        return float(np.var(by_block, axis=0).sum())

    assert seen is not None
    assert seen.value == pytest.approx(variance(returns - others[:, None]) / variance(returns), rel=1e-4)


@pytest.fixture(scope="module")
def of_fifty_turns(run: Path) -> GradientAudit:
    return audit_gradients(run, [], quiet, max_turns=50, seed=3)


def test_the_same_seed_gives_the_same_table(run: Path, of_fifty_turns: GradientAudit) -> None:
    assert audit_gradients(run, [], quiet, max_turns=50, seed=3) == of_fifty_turns


def test_a_turn_limit_keeps_whole_blocks_and_baselines_of_the_whole_batch(
    run: Path, of_fifty_turns: GradientAudit
) -> None:
    found = of_fifty_turns
    assert (found.blocks, found.turns, found.turns_of_batch) == (6, 48, 96)
    assert audit_gradients(run, [], quiet, max_turns=1).blocks == 4  # fewer say nothing


def test_leave_one_out_keys_have_no_bias(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "run")
    changes = ["grouping.baseline=leave_one_out", "grouping.keys=['country+lineup']", "grouping.scale_rewards=group"]
    (other / "config.toml").write_text(dump_config(load_config(other / "config.toml", changes)))
    found = audit_gradients(other, [], quiet, max_turns=40)
    assert list(found.ways) == ["none", "batch", "country+lineup"]
    assert found.ways["country+lineup"].bias.value == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("key", "features"), [("country+return", []), ("country+auto", ["return"])], ids=["a fact", "clusters"]
)
def test_keys_made_from_outcomes_have_no_effective_samples(
    key: str, features: list[str], run: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(run, tmp_path / "run")
    grouping = [f"grouping.keys=['{key}', 'country']", f"grouping.cluster_features={features}"]
    changes = ["grouping.allow_outcome_keys=true", *grouping]
    (other / "config.toml").write_text(dump_config(load_config(other / "config.toml", changes)))
    found = audit_gradients(other, [key], quiet, max_turns=40)
    assert found.ways[key].effective_samples is None
    assert found.ways["declared chain"].effective_samples is None
    assert found.ways["country"].effective_samples is not None
    assert found.reference == ("country",)


def test_missing_batch_or_checkpoint_is_named(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(other / "checkpoints" / "1")
    assert (
        audit_gradients(other, [], quiet, max_turns=40).checkpoint == 2
    )  # the newest stands in for the one before the update
    shutil.rmtree(other / "checkpoints")
    with pytest.raises(NoGradientsError, match="no checkpoint"):
        audit_gradients(other, [], quiet)
    (other / "audit" / "last_batch.bin").unlink()
    with pytest.raises(NoGradientsError, match=r"audit/last_batch\.bin"):
        audit_gradients(other, [], quiet)


def test_command_shows_and_writes_the_table(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "audit.json"
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(
        "sys.argv", ["entente", "groups", "audit", str(run), "--gradients", "--turns", "60", "--json", str(out)]
    )
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert not left.value.code
    text = capsys.readouterr().out
    assert "recommended: country+lineup" in text
    assert "gradient of the batch of update 2: 7 line-up blocks, 56 of 96 turns" in text
    assert all(len(line) <= 80 for line in text.splitlines() if str(tmp_path.parent) not in line)
    written = json.loads(out.read_text())["gradients"]
    assert written["ways"]["country+lineup"]["effective_samples"]["value"] > 1
    assert written["checkpoint"] == 1
