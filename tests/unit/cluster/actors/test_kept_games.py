"""Kept training games: which blocks, their files, and judgements that agree with the groups' own arithmetic."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from cluster.actors import kept_games
from cluster.actors.kept_games import add_judgements, keeps, save_game
from cluster.actors.learner import LearnerWorker
from cluster.actors.rollout import RolloutWorker
from cluster.configs.loader import load_config
from cluster.evaluation.records.decision_recorder import DecisionRecorder
from cluster.export.saved_games import game_files
from cluster.runs.folder import RunFolder
from grpo_core.advantages.group_baseline import SCALE_EPS
from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.types import Batch
from opponents.matchmaking.lineup import LineupBlock, block_name
from opponents.population.member import Member
from services.environments.diplomacy.position import POWERS
from services.replay.memory_buffer import MemoryBuffer
from services.reports.game_viewer.decisions import read_decisions
from services.reports.game_viewer.frames import read_saved_game
from services.reports.game_viewer.game_viewer import make_replay
from tests.unit.cluster.actors.test_learner import worker_at

PLAYED = (
    "game.until_year=1902",
    "grouping.scale_rewards=group",
    "learner.returns=per_phase",
    "grouping.keys=['country+phase','country']",
)
BOTS = {
    f"bot/{name}": Member(
        id=f"bot/{name}", kind="bot", name=name, version=0, checksum="", parent=None, created_at_update=0, weight=1.0
    )
    for name in ("random", "dumbbot")
}


def test_the_first_block_of_every_so_many_updates_is_kept() -> None:
    config = load_config("smoke", ["rollout.keep_games_every=3"])  # 7 blocks an update
    kept = [index for index in range(100) if keeps(config, block_name(index))]
    assert kept == [0, 21, 42, 63, 84]
    assert not keeps(config, block_name(7_000_014)), "an extra block"
    assert not keeps(config, "../../etc")
    assert not keeps(load_config("smoke", ["rollout.keep_games_every=0"]), block_name(0))
    assert not keeps(load_config("kuhn"), block_name(0)), "its games are no maps"


@pytest.fixture
def run(tmp_path: Path) -> tuple[LearnerWorker, RolloutWorker, MemoryBuffer, RunFolder]:
    folder = RunFolder(tmp_path / "run")
    buffer = MemoryBuffer(group_timeout_s=60)
    learner = worker_at(folder.path, *PLAYED, buffer=buffer)
    folder.games.mkdir()
    rollouts = RolloutWorker(learner._config, str(folder.checkpoints / "0"), str(folder.population), buffer)
    return learner, rollouts, buffer, folder


def play(rollouts: RolloutWorker, learner: LearnerWorker, index: int, role: str) -> None:
    names = [f"bot/{name}" for name in ("random", "dumbbot")]
    others = tuple((power, names[place % 2]) for place, power in enumerate(POWERS) if power != role)
    block = LineupBlock(index, block_name(index), role, others, 2, 5 + index, "digest", place=POWERS.index(role))

    async def go() -> None:
        await rollouts.swap(learner.publish())
        await rollouts.play_block(block, list(BOTS.values()), 0)

    asyncio.run(go())


def test_a_kept_game_shows_how_its_update_judged_it(run) -> None:
    learner, rollouts, _, folder = run
    for index, role in enumerate(POWERS):
        play(rollouts, learner, index, role)
    assert sorted(path.relative_to(folder.games).as_posix() for path in folder.games.rglob("*.*")) == [
        "training/b000000/0.decisions.json.gz",
        "training/b000000/0.json",
        "training/b000000/1.decisions.json.gz",
        "training/b000000/1.json",
    ]
    assert game_files(folder.path) == [], "they are no games of evaluations"
    learner.update(dict.fromkeys(POWERS, 1), 1.0)
    judged = {}
    for member in range(2):
        file = folder.games / "training" / "b000000" / f"{member}.json"
        decisions = read_decisions(file)
        assert decisions is not None
        assert {each.player for each in decisions.decisions} == {"smoke/checkpoints/0"}
        replay = make_replay(read_saved_game(file), decisions)
        assert replay.data["decisionsNote"] == ""
        assert {seat["player"] for seat in replay.data["seats"].values()} == {
            "smoke/checkpoints/0", "random", "dumbbot"
        }  # fmt: skip
        for each in decisions.decisions:
            if each.judgement is not None:
                judged[member, each.phase] = each.judgement
    assert {phase for _, phase in judged} >= {"S1901M", "F1901M"}
    assert any(not each.zero_variance for each in judged.values()), "some returns differ"
    for (member, phase), own in judged.items():
        other = judged.get((1 - member, phase))
        assert own.version == 1
        if own.level != "country+phase" or other is None:
            continue
        assert own.group == f"{POWERS[0]}, {phase}"
        assert own.size == 2
        values = np.array([own.value, other.value])
        assert own.baseline == pytest.approx(values.mean())
        assert own.zero_variance == (own.value == other.value)
        if not own.zero_variance:
            assert own.advantage == pytest.approx(
                (own.value - values.mean()) / (values.std(ddof=1) + SCALE_EPS), rel=1e-4
            )


def test_only_the_newest_blocks_stay(tmp_path: Path, run, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, rollouts, buffer, folder = run
    monkeypatch.setattr(kept_games, "MOST_BLOCKS", 2)
    for number in (3, 20, 1_000_000):
        save_game(folder.games, block_name(number), 0, "{}", DecisionRecorder())
    play(rollouts, learner, 0, "FRANCE")
    config = learner._config
    (episodes,) = [buffer.take({"FRANCE": 1}, 1.0).episodes]
    found = compute_advantages(episodes, config.learner, config.grouping, {})
    add_judgements(folder.games, Batch(tuple(episodes), 0), found)
    assert sorted(path.name for path in (folder.games / "training").iterdir()) == ["b000020", "b1000000"]


def test_a_disk_that_is_full_ends_no_game(tmp_path: Path) -> None:
    (tmp_path / "training").write_text("in the way")
    save_game(tmp_path, block_name(0), 0, "{}", DecisionRecorder())
    assert (tmp_path / "training").read_text() == "in the way"
