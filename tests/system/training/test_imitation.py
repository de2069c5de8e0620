"""Imitation by real processes: two processes train one policy, and a run starts from an imitated policy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from cluster.configs.loader import load_config
from cluster.errors import RunError
from cluster.imitation.launcher import imitate
from cluster.runs.folder import last_update
from cluster.runs.imitation_report import UNTRAINED, ImitationTask
from grpo_core.models.named_tensors import named_tensors
from grpo_core.models.pretrained import load_model
from tests.system.support.training_process import QUICK, TrainingProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

SMALL = ("imitation.games=4", "imitation.until_year=1902", "imitation.epochs=2", "imitation.decisions_per_step=16",
         "imitation.learning_rate=3e-3")  # fmt: skip
RANKS = """
import sys
import torch
from safetensors.torch import save_file
from grpo_core.training.behavior_cloning import BehaviorCloner
from grpo_core.models.fsdp import process_group
from tests.unit.grpo_core.training.test_behavior_cloning import make_model, make_turns

rank, ranks, meeting, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
torch.set_num_threads(1)
with process_group(rank, ranks, "file://" + meeting, timeout_s=120) as group:
    model, turns = make_model(), make_turns(41, seed=1)[rank::ranks]  # parts of unequal size
    cloner = BehaviorCloner(model, learning_rate=1e-2, steps=3, ranks=group)
    losses = [cloner.step(turns) for _ in range(3)]
    measured = cloner.held_out(turns)
save_file({**dict(model.named_parameters()), "losses": torch.tensor([*losses, measured])}, out + str(rank))
"""


HANDING_OVER = """
import sys
from multiprocessing import Pipe
from pathlib import Path
from cluster.configs.loader import load_config
from cluster.imitation.process import _Rank
from cluster.runs.imitation_report import GamesHandedOver, ImitationReport, ImitationTask

rank, meeting, draft = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
receiver, sender = Pipe(duplex=False)
process = _Rank(ImitationTask.of(load_config("smoke", sys.argv[4:])), rank, sender)
process._learns_alone = True  # as with a GPU
process.run(meeting, draft)
sender.close()
said = []
try:
    while True:
        said.append(receiver.recv())
except EOFError:
    pass
if rank == 0:
    assert isinstance(said[-1], ImitationReport), said
    assert said[-1].games == 6 and said[-1].nats_after[-1] < said[-1].nats_before, said
else:
    assert isinstance(said[-1], GamesHandedOver), said
"""


def quiet(name: str, steps: int) -> Callable[[int], None]:
    """A stage without progress display."""
    return lambda done: None


def test_two_processes_take_the_same_imitation_step_as_one(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    for ranks in (1, 2):
        meeting, out = str(tmp_path / f"meeting-{ranks}"), str(tmp_path / f"weights-{ranks}-")
        running = [
            subprocess.Popen([sys.executable, "-c", RANKS, str(rank), str(ranks), meeting, out], env=environment)
            for rank in range(ranks)
        ]
        assert [process.wait(300) for process in running] == [0] * ranks
    alone = load_file(tmp_path / "weights-1-0")
    for rank in range(2):
        together = load_file(tmp_path / f"weights-2-{rank}")
        for name, value in alone.items():
            torch.testing.assert_close(together[name], value, atol=2e-6, rtol=0, msg=name)


def test_with_a_gpu_the_first_process_learns_from_the_games_of_all(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    draft = tmp_path / "draft"
    many = (*SMALL, "imitation.games=6", "imitation.processes=3")
    running = [
        subprocess.Popen(
            [sys.executable, "-c", HANDING_OVER, str(rank), str(tmp_path / "meeting"), str(draft), *many],
            env=environment,
        )
        for rank in range(3)
    ]
    assert [process.wait(300) for process in running] == [0, 0, 0]
    load_model(draft)


def task(settings: Sequence[str]) -> ImitationTask:
    return ImitationTask.of(load_config("smoke", settings))


def test_an_imitated_policy_is_saved_as_a_model_folder(tmp_path: Path) -> None:
    report = imitate(task(SMALL), tmp_path / "policy", quiet)
    assert report.decisions > 50
    assert report.held_out_decisions > 10
    assert report.nats_after[-1] < report.nats_before
    model, _ = load_model(tmp_path / "policy")
    before, _ = load_model(tmp_path / "policy" / UNTRAINED)
    assert not torch.equal(named_tensors(model)["lm_head.weight"], named_tensors(before)["lm_head.weight"])
    assert json.loads((tmp_path / "policy" / "imitation.json").read_text())["games"] == 4
    with pytest.raises(RunError, match="there already"):
        imitate(task(SMALL), tmp_path / "policy", quiet)


def test_impossible_imitations_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "game.json").write_text("{}")
    for settings, message in (
        (("imitation.games=0",), "nothing to imitate"),
        (("imitation.games=2", "imitation.until_year=1901"), "at least two"),
        ((f"imitation.saved_games={tmp_path / 'saved'}", "imitation.processes=1"), "not a saved game"),
        ((f"imitation.saved_games={tmp_path / 'none'}", "imitation.processes=1"), "no .*json"),
    ):
        with pytest.raises(RunError, match=message):
            imitate(task(settings), tmp_path / "policy", quiet)
    assert not (tmp_path / "policy").exists()
    assert not list(tmp_path.glob(".policy*"))


def test_a_dead_imitation_process_raises_and_leaves_no_files_or_processes(tmp_path: Path) -> None:
    def kill_one(name: str, steps: int) -> Callable[[int], None]:
        def on_step(done: int) -> None:
            if "imitating" in name:
                children = [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]
                os.kill(max(children, key=lambda child: child.pid).pid, signal.SIGKILL)

        return on_step

    many = (*SMALL, "imitation.games=12", "imitation.epochs=50")
    with pytest.raises(RunError, match="died"):
        imitate(task(many), tmp_path / "policy", kill_one)
    assert not (tmp_path / "policy").exists()
    assert threading.active_count() >= 1
    assert not [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]


def test_a_run_can_start_from_an_imitated_policy(tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = (*SMALL, "learner.updates=2", "evaluation.games_per_country=1")
    with TrainingProcess(run, *QUICK, *(part for key in settings for part in ("--set", key))) as training:
        assert training.finish() == 0, training.output()
        assert training.survivors() == []
        assert "imitated" in training.output()
    assert last_update(run) == 2
    summary = json.loads((run / "summary.json").read_text())
    labels = [(row["label"], row["checkpoint"]) for row in summary["evaluations"] if row["against"] == "random"]
    assert labels == [
        ("untrained", "imitated/untrained"), ("imitated", "checkpoints/0"), ("trained", "checkpoints/2")
    ]  # fmt: skip
    assert summary["imitation"]["decisions"] > 50
    first, imitated = (load_file(folder / "model.safetensors") for folder in (run / "checkpoints/0", run / "imitated"))
    assert all(torch.equal(first[name], value) for name, value in imitated.items())
    before = (run / "imitated" / "model.safetensors").stat().st_mtime_ns
    more = ("--resume", *QUICK, "--set", "learner.updates=3")
    with TrainingProcess(run, *more, config=None) as training:
        assert training.finish() == 0, training.output()
    assert last_update(run) == 3
    assert (run / "imitated" / "model.safetensors").stat().st_mtime_ns == before
