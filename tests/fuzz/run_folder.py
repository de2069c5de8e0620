"""A whole run folder, made once a process by the real parts: every file that a run leaves behind, with tiny weights."""

from __future__ import annotations

import functools
import itertools
import json
import random
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np

from cluster.configs.loader import dump_config, load_config
from cluster.configs.schema import Config
from cluster.evaluation.records.game_origins import describe_bot, describe_learner, game_origin
from cluster.runs.folder import RunFolder, snapshot_files
from cluster.runs.imitation_report import ImitationReport
from cluster.runs.restarts import note_restart
from grpo_core.types import PolicyVersion
from opponents.league.league import League
from opponents.population.population import Population
from opponents.ratings.game_score import GameScore
from services.environments.diplomacy.ending import Ending
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.scoring.shares import places, sum_of_squares
from services.environments.playing import Standing
from services.metrics.jsonl import JsonlSink
from services.replay.memory_buffer import MemoryBuffer
from tests.diplomacy_rows import result, row
from tests.unit.grpo_core.support.cases import episode_of, ragged_turn

OVERRIDES = (
    "run.name=fuzz",
    "policy.hidden_size=32",
    "policy.layers=1",
    "policy.intermediate_size=32",
    "learner.updates=9",
    "rollout.num_generations=2",
    "learner.episodes_per_update=14",
    "learner.checkpoint_every=1",
    "grouping.keys=['country']",
    "learner.tokens_per_microbatch=1024",
    "opponents.matchmaking=curriculum",
    "opponents.curriculum=['random','greedy']",
)
ADAPTERS = (*OVERRIDES, "policy.use_peft=true", "policy.specialists=true", "policy.lora_r=2")
_KEPT: list[tempfile.TemporaryDirectory[str]] = []  # until the process ends


@functools.cache
def template(overrides: tuple[str, ...] = OVERRIDES) -> Path:
    """The folder that every case copies: checkpoints 0 to 2, audits, a population with results and ratings, a game."""
    from cluster.actors.learner import LearnerWorker

    _KEPT.append(tempfile.TemporaryDirectory(prefix="entente-fuzz-run-"))
    run = Path(_KEPT[-1].name) / "run"
    config, folder = load_config("smoke", overrides), RunFolder(run)
    folder.open(config, resume=False)
    worker = LearnerWorker(config, str(run), MemoryBuffer(group_timeout_s=60), False)
    sink = JsonlSink(folder.metrics, clock=itertools.count(1.7e9, 10.0).__next__)
    population = Population(folder.population)
    population.add_bot("random")
    population.add_bot("greedy")
    for version in range(2):
        worker._buffer.append(_episodes(version))
        report, _ = worker.update(dict.fromkeys(POWERS, 1), 1.0)
        sink.record(report.version, {"entente_updates_total": float(report.version), **report.metrics})
        weights = run / "population" / f"v{report.version}.safetensors"
        worker.snapshot(str(weights))
        for country, file in snapshot_files(weights, POWERS if config.policy.specialists else ()).items():
            population.add_snapshot(file, version=report.version, country=country, config_digest=config.digest)
    sink.close()
    population.advance_to(2)
    population.save()
    _play_league(folder, population, config)
    note_restart(run, 1, "the learner was lost")
    _write_results(folder)
    return run


def copy_to(folder: Path, overrides: tuple[str, ...] = OVERRIDES) -> Path:
    """A case's own copy of the template."""
    return Path(shutil.copytree(template(overrides), folder / "run"))


def _episodes(version: int) -> list[object]:
    blocks = []
    for index, power in enumerate(POWERS):
        for member in range(2):
            rng = np.random.default_rng([version, index, member])
            turn = ragged_turn(rng, policy_version=version)
            blocks.append(
                episode_of((turn,), role=power, name=f"{version}-{power}/{member}", reward=float(rng.normal()))
            )
    outcome = dict.fromkeys(("centers", "solo", "draw", "top", "survived", "final_year", "phases"), 1.0)
    return [_with_outcome(episode, outcome) for episode in blocks]


def _with_outcome(episode: object, outcome: dict[str, float]) -> object:
    import dataclasses

    return dataclasses.replace(episode, block_size=2, outcome=outcome)  # type: ignore[type-var]


def _play_league(folder: RunFolder, population: Population, config: Config) -> None:
    rng = random.Random(0)
    league = League(
        folder.path,
        population,
        config.opponents,
        world=config.world,
        num_generations=2,
        seed=0,
        version=2,
        resume=True,
    )
    with league:
        for index in range(7):
            block = league.block(index)
            centers = {power: rng.randrange(1, 9) for power in POWERS}
            standing = Standing(sum_of_squares(centers), places(centers))
            league.record(block, [GameScore(block.players, standing)], [{"centers": float(centers[block.role])}])


def _write_results(folder: RunFolder) -> None:
    from services.environments.diplomacy.game import DiplomacyGame

    rng = random.Random(0)
    results = [result(power, rng.randrange(9), squares=rng.random()) for power in POWERS for _ in range(2)]
    rows = [
        {"label": label, **row(results, checkpoint=label, against="random", until_year=1902), "seconds": 1.0}
        for label in ("untrained", "trained")
    ]
    speed = dict.fromkeys(
        ("games_per_hour", "decisions_per_second", "completion_tokens_per_second", "learner_tokens_per_second"), 1.5
    )
    folder.write_summary(
        {
            "run": "fuzz",
            "commit": "0f",
            "config_digest": "0f",
            "updates": 2,
            "episodes": 28,
            "games": 28,
            "wall_seconds": 60.0,
            "policy": {"parameters": 1000, "trained_parameters": 1000},
            "throughput": speed,
            "training": {"seconds": 40.0},
            "evaluations": rows,
            "nonfinite_updates": 0,
            "provenance": {"system": "Linux", "versions": {"torch": "2"}},
        }
    )
    game = DiplomacyGame(1902, "FRANCE")
    while not game.is_done:
        position = game.position
        for power in position.to_move:
            places = position.orderable[power]
            game.set_orders(power, [rng.choice(position.legal[place]) for place in places if place in position.legal])
        game.process()
    bot, learner = describe_bot("random"), describe_learner("fuzz", PolicyVersion(2, "0f"), "free", 1.0)
    seats = {**dict.fromkeys(POWERS, bot), "FRANCE": learner}
    saved = folder.games / "trained-random"  # of the last evaluation, so that the report shows it
    saved.mkdir()
    game.origin = game_origin(seats, seed=0, ending=Ending(1902), commit="0f")
    game.save(saved / "FRANCE.json")
    report = ImitationReport("dumbbot", 1, 0, 10, 2, 2.0, (1.0,), 3.0, 4.0, "0f")
    (folder.path / "imitation.json").write_text(json.dumps(asdict(report)))
    assert dump_config(load_config(folder.config))


if __name__ == "__main__":
    import sys

    shutil.copytree(template(), sys.argv[1])
