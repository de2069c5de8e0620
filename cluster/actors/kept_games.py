"""Training games that a run keeps to be looked at: ``games/training/b000123/<member>.json`` with their decisions.

Rollout actors write a kept game before they store its episode, and the learner adds how it judged the decisions.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cluster.configs.schema import Config
from cluster.evaluation.records.decision_recorder import DecisionRecorder
from grpo_core.advantages.judgements import SampleJudgement, sample_judgements
from grpo_core.advantages.pipeline import AdvantageBatch
from grpo_core.checkpoints.atomic_write import write_atomically, writing
from grpo_core.errors import StorageError
from grpo_core.types import Batch, Episode
from opponents.matchmaking.lineup import EXTRA_BLOCKS_FROM, is_block_name
from services.reports.game_viewer.decisions import Judgement, read_decisions, write_decisions
from services.reports.page import ReportError
from services.reports.run_report.games.training import FOLDER

MOST_BLOCKS = 10  # the newest; older ones are removed


def keeps(config: Config, block_id: str) -> bool:
    """Whether the games of this block are kept: the first block of every ``rollout.keep_games_every``-th update."""
    every = config.rollout.keep_games_every
    if not every or not config.world.saves_positions or not is_block_name(block_id):
        return False
    index = int(block_id[1:])
    per_update = config.learner.episodes_per_update // config.rollout.num_generations
    return index < EXTRA_BLOCKS_FROM and index % (every * per_update) == 0


def save_game(games: Path, block_id: str, member: int, text: str, recorder: DecisionRecorder) -> None:
    """Write a game's document (``text``) and its decisions below a run's folder of games.

    A disk that is full must not end a game whose episode still counts: then the game is not kept.
    """
    file = _file(games, block_id, member)
    with suppress(StorageError):
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
        write_decisions(file, recorder.recorded(file.stem))
        write_atomically(file, text.encode() + b"\n")


def add_judgements(games: Path, batch: Batch, advantages: AdvantageBatch) -> None:
    """Add to the decisions of kept games how an update judged them, then remove the oldest blocks.

    Raises StorageError if they cannot be written.
    """
    if not (games / FOLDER).is_dir():
        return
    blocks = {path.name for path in (games / FOLDER).iterdir()}
    judged: list[SampleJudgement] | None = None
    turns = 0
    for episode in batch.episodes:
        if episode.block_id in blocks:
            judged = judged if judged is not None else sample_judgements(advantages)
            samples = advantages.sample_of_turn[turns : turns + len(episode.turns)].tolist()
            _judge(games, episode, [judged[sample] for sample in samples], batch.learner_version + 1)
        turns += len(episode.turns)
    if judged is not None:
        _prune(games / FOLDER)


def _judge(games: Path, episode: Episode, judged: Sequence[SampleJudgement], version: int) -> None:
    file = _file(games, episode.block_id, int(episode.episode_id.rpartition("/")[2]))
    try:
        decisions = read_decisions(file)
    except ReportError:
        return  # it is damaged; the replay says so
    if decisions is not None:
        by_turn = {
            (turn.phase, episode.role): _judgement(each, version)
            for turn, each in zip(episode.turns, judged, strict=True)
        }
        write_decisions(file, decisions.judged(by_turn))


def _judgement(judged: SampleJudgement, version: int) -> Judgement:
    return Judgement(
        value=judged.value,
        baseline=judged.baseline,
        advantage=judged.advantage,
        level=judged.level,
        group=", ".join(map(str, judged.key)),
        size=judged.size,
        std=judged.std,
        zero_variance=judged.zero_variance,
        version=version,
    )


def _prune(folder: Path) -> None:
    blocks = sorted(
        (path for path in folder.iterdir() if is_block_name(path.name)), key=lambda path: int(path.name[1:])
    )
    for old in blocks[:-MOST_BLOCKS]:
        shutil.rmtree(old, ignore_errors=True)


def _file(games: Path, block_id: str, member: int) -> Path:
    return games / FOLDER / block_id / f"{member}.json"
