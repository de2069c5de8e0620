"""One process of imitation: it plays a part of the games and computes a part of each gradient.

On a machine with a GPU the first process learns there from the games of all.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from cluster.actors.initial_policy import make_policy, make_tokenizer
from cluster.errors import RunError
from cluster.runs.imitation_report import (
    UNTRAINED,
    Failed,
    GamesHandedOver,
    ImitationReport,
    ImitationTask,
    StageBegan,
    StepsDone,
)
from grpo_core.batching.microbatches import TrainingTurn, training_turn
from grpo_core.checkpoints.atomic_write import writing
from grpo_core.errors import EntenteError, one_line
from grpo_core.models.fsdp import ALONE, Sharding, process_group
from grpo_core.models.pretrained import save_model
from grpo_core.seeds import derive_seed
from grpo_core.training.behavior_cloning import BehaviorCloner
from grpo_core.types import Turn
from opponents.demonstrations import demonstrate_game, saved_demonstrations
from opponents.players.llm_policy import TokenizedLanguage


def run_rank(task: ImitationTask, rank: int, meeting: str, draft: Path, connection: Connection) -> None:
    """Run process number ``rank``; the first one reports, and writes the policy to the folder ``draft``.

    ``meeting`` is a file that does not exist yet, through which the processes find one another; ``connection`` takes
    ``Message`` objects.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
    with suppress(BrokenPipeError):  # the parent process is gone
        try:
            _Rank(task, rank, connection).run(meeting, draft)
        except Exception as error:
            connection.send(Failed(one_line(error), isinstance(error, EntenteError)))
            if not isinstance(error, EntenteError):
                raise


class _Rank:
    def __init__(self, task: ImitationTask, rank: int, connection: Connection) -> None:
        torch.set_num_threads(1)
        self._task = task
        self._settings = task.settings
        self._rank = rank
        self._connection = connection
        self._parent = os.getppid()
        self._world = task.world
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._learns_alone = self._device.type == "cuda"  # the first process, from the games of all
        self._tokenizer = make_tokenizer(task.policy, self._world.language)
        # Small updates of bfloat16 weights are rounded away; the run takes them in its own type afterwards.
        wide = task.policy.model_copy(update={"dtype": "float32"})
        # Made before the games, so that weights that cannot be read are told at once.
        self._model = None if self._learns_alone and rank else make_policy(wide, task.seed, self._world.language)[0]

    def run(self, meeting: str, draft: Path) -> None:
        """Play, learn, and as the first process write the policy and the report."""
        start = time.perf_counter()
        games = [*self._saved_games(), *self._played_games()]
        played = time.perf_counter()
        with process_group(self._rank, self._settings.processes, f"file://{meeting}") as ranks:
            if not self._learns_alone:
                self._learn_from(games, ranks, draft, played - start)
            elif all_games := ranks.gathered(games):
                self._learn_from(list(chain(*all_games)), ALONE, draft, played - start)
            else:
                self._connection.send(GamesHandedOver())

    def _learn_from(
        self, games: list[list[TrainingTurn]], ranks: Sharding, draft: Path, playing_seconds: float
    ) -> None:
        """Learn from this process's games; the first one writes and reports."""
        began = time.perf_counter()
        assert self._model is not None
        model = self._model.to(self._device)
        learned, measured = self._split(games)
        counts = ranks.total(np.array([len(games), len(learned), len(measured)], np.float64)).astype(int).tolist()
        if not (counts[1] and counts[2]):
            raise RunError(
                f"{counts[0]} games have {counts[1]} decisions to learn from and {counts[2]} to measure on: are "
                "the saved games in the notation of the world, and did imitation.saved_players play them?"
            )
        if self._rank == 0:
            with writing(draft):
                save_model(model, self._tokenizer, draft / UNTRAINED)
        before, after = self._learn(model, learned, measured, counts[1], ranks)
        if self._rank:
            return
        with writing(draft):
            save_model(model.cpu(), self._tokenizer, draft)
        self._connection.send(
            ImitationReport(
                teacher=self._settings.teacher,
                games=self._settings.games,
                saved_games=counts[0] - self._settings.games,
                decisions=counts[1],
                held_out_decisions=counts[2],
                nats_before=before,
                nats_after=after,
                playing_seconds=playing_seconds,
                training_seconds=time.perf_counter() - began,
                made_from=self._task.digest,
            )
        )

    def _learn(
        self,
        model: PreTrainedModel,
        learned: list[TrainingTurn],
        measured: list[TrainingTurn],
        decisions: int,
        ranks: Sharding,
    ) -> tuple[float, tuple[float, ...]]:
        """Learn; returns the nats a token before, and after each epoch."""
        settings = self._settings
        per_epoch = max(1, decisions // settings.decisions_per_step)
        steps = settings.epochs * per_epoch
        name = f"imitating {decisions:,} decisions"
        self._connection.send(StageBegan(name, steps))
        budget: dict[str, Any] = (
            {"tokens_per_microbatch": self._task.tokens_per_microbatch} if self._learns_alone else {}
        )
        cloner = BehaviorCloner(
            model,
            learning_rate=settings.learning_rate,
            steps=steps,
            **budget,
            bf16=self._task.bf16,
            optimizer=settings.optimizer,
            ranks=ranks,
        )
        generator = np.random.Generator(np.random.PCG64([self._task.seed, self._rank]))
        before = cloner.held_out(measured)
        after = []
        for _ in range(settings.epochs):
            for share in np.array_split(generator.permutation(len(learned)), per_epoch):
                cloner.step([learned[index] for index in share])
                if self._rank == 0:
                    self._report_steps(name, 1)
            after.append(cloner.held_out(measured))
        return before, tuple(after)

    def _split(self, games: list[list[TrainingTurn]]) -> tuple[list[TrainingTurn], list[TrainingTurn]]:
        """Split into whole games to learn from, and at least one to measure on."""
        kept_out = max(1, round(self._settings.held_out * len(games)))
        if kept_out >= len(games):
            raise RunError(
                f"one of {self._settings.processes} processes has {len(games)} of the games, and needs at least two: "
                "one to learn from and one to measure on; raise imitation.games or lower imitation.processes"
            )
        generator = np.random.Generator(np.random.PCG64([self._task.seed, self._rank]))
        shuffled = [games[index] for index in generator.permutation(len(games))]
        return list(chain(*shuffled[kept_out:])), list(chain(*shuffled[:kept_out]))

    def _played_games(self) -> Iterator[list[TrainingTurn]]:
        """Play this process's share of the teachers' games."""
        settings = self._settings
        if not settings.games:
            return
        name = self._world.teaching(settings)
        self._connection.send(StageBegan(name, settings.games))
        tokens = self._tokens()
        for game in range(self._rank, settings.games, settings.processes):
            number = self._task.first_game + game
            seed = derive_seed(self._task.seed, "imitation", number)
            yield _ready(asyncio.run(demonstrate_game(self._world, settings, tokens, number, seed)))
            self._report_steps(name, 1)

    def _saved_games(self) -> Iterator[list[TrainingTurn]]:
        """Read this process's share of the saved games."""
        try:
            files = self._world.saved_games(self._settings)
        except ValueError as error:
            raise RunError(str(error)) from None
        if not files:
            return
        name = "reading saved games"
        self._connection.send(StageBegan(name, len(files)))
        tokens = self._tokens()
        for file in files[self._rank :: self._settings.processes]:
            yield _ready(list(saved_demonstrations(self._world, self._settings, file, tokens)))
            self._report_steps(name, 1)

    def _tokens(self) -> TokenizedLanguage:
        return TokenizedLanguage(self._world.language, self._tokenizer, self._task.policy, self._task.inference)

    def _report_steps(self, stage: str, steps: int) -> None:
        if os.getppid() != self._parent:
            raise BrokenPipeError("the parent process is gone")
        self._connection.send(StepsDone(stage, steps))


def _ready(turns: Sequence[Turn]) -> list[TrainingTurn]:
    return [training_turn(turn, index, 0, 0) for index, turn in enumerate(turns)]
