"""A run whose opponents are chosen by results, killed and resumed: every game has the opponents of the line-up log."""

from __future__ import annotations

import json
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import Any

import pytest

from cluster.actors.audit_batch import load_last_batch
from cluster.runs.folder import RunFolder, audits, episodes_used, last_update
from opponents.matchmaking.lineup import learner_of_block
from services.environments.diplomacy.position import POWERS
from services.metrics.jsonl import read_metrics
from tests.system.support.training_process import QUICK, TrainingProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

UPDATES = 5
SETTINGS = (
    "opponents.matchmaking=pfsp_hard", "opponents.anchor_share=0.4", "opponents.anchors=['greedy']",
    "opponents.self_play_seats=1", "opponents.snapshot_every=1", "rollout.num_generations=2",
    f"learner.updates={UPDATES}", "learner.checkpoint_every=1", "evaluation.against=[]", "evaluation.final_against=[]",
)  # fmt: skip


def test_prioritised_play_against_anchors_and_itself_survives_a_kill(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = [part for setting in SETTINGS for part in ("--set", setting)]
    with TrainingProcess(run, *QUICK, *arguments) as training:
        training.wait_until(lambda: last_update(run) >= 2, "two updates")
        training.kill()
        assert training.survivors() == []
    before = lineups(run)
    episodes_are_those_of(before, run)
    with TrainingProcess(run, "--resume", config=None) as training:
        assert training.finish() == 0, training.output()
    after = lineups(run)
    assert {index: after[index] for index in before} == before, "what was drawn before the kill stays drawn"
    episodes_are_those_of(after, run)
    assert {int(name[1:7]) for name in episodes_used(run)} == set(after) == set(range(UPDATES * 7))
    seats_are_what_the_config_says(after)
    results_are_remembered(run)


def lineups(run: Path) -> dict[int, dict[str, Any]]:
    """The line-up log by block; a last line that the kill cut off is ignored."""
    text = (run / "lineups.jsonl").read_text()
    lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    assert len({line["index"] for line in lines}) == len(lines)
    return {line["index"]: line for line in lines}


def episodes_are_those_of(record: dict[int, dict[str, Any]], run: Path) -> None:
    batch = load_last_batch(RunFolder(run))
    assert batch is not None
    for episode in batch.episodes:
        line = record[int(episode.block_id[1:])]
        assert (episode.role, episode.keys["lineup"]) == (line["power"], line["lineup"])
    for version, audit in audits(run).items():
        for name in audit["episodes"]:
            assert record[int(name[1:7])]["version"] < version, "a line-up was drawn before the update that it taught"


def seats_are_what_the_config_says(record: dict[int, dict[str, Any]]) -> None:
    assert all(line["power"] == learner_of_block(0, index, POWERS) for index, line in record.items())
    anchored = [line for line in record.values() if line["strategy"] == "anchors"]
    assert len(anchored) == floor(len(record) * Fraction("0.4"))
    for power in POWERS:
        assert floor(UPDATES * 0.4) <= sum(line["power"] == power for line in anchored) <= ceil(UPDATES * 0.4)
    assert {who for line in anchored for who in line["members"].values()} == {"bot/greedy"}
    free = [line for line in record.values() if line["strategy"] == "pfsp_hard"]
    assert len(free) + len(anchored) == len(record)
    assert all(list(line["members"].values()).count("learner") == 1 for line in free)
    assert any(who.startswith("policy/") for line in free for who in line["members"].values())
    assert len({line["probabilities"] for line in free}) > 1, "results move the chances"


def results_are_remembered(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    assert results["update"] == UPDATES
    games = sum(tally["games"] for tally in results["countries"].values())
    # The few games that ended between the last save and the kill are missing.
    assert UPDATES * 14 - 3 * 14 <= games <= UPDATES * 14
    last = [line.metrics for line in read_metrics(run / "metrics.jsonl") if "entente_loss" in line.metrics][-1]
    assert last["entente_opponent_score{opponent=bot/greedy}"] < 0.5
    counted = sum(tally["games"] for tally in results["members"]["bot/greedy"].values())
    assert 0 < last["entente_opponent_games_total{opponent=bot/greedy}"] <= counted
    assert last["entente_rating_deviation{player=learner}"] < 200
