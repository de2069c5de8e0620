"""The main job with real Ray actors, a Redis-protocol server and whole games; killed, stopped and resumed."""

from __future__ import annotations

import json
import math
import random
import signal
import socket
import subprocess
from pathlib import Path

import psutil
import pytest

from cluster.runs.folder import audits, episodes_used, last_update
from cluster.runs.traces import read_trace, trace_files
from services.metrics.jsonl import read_metrics
from tests.system.support.training_process import ENTENTE, QUICK, TrainingProcess

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

EPISODES = 14  # of one update of smoke.toml


def test_a_smoke_run_writes_all_its_results(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with TrainingProcess(run) as training:
        assert training.finish() == 0, training.output()
        assert training.survivors() == []
    summary = json.loads((run / "summary.json").read_text())
    assert summary["updates"] == 4
    assert summary["episodes"] == 4 * EPISODES
    assert {row["label"] for row in summary["evaluations"]} == {"untrained", "trained"}
    assert all(row["games"] == 7 for row in summary["evaluations"])
    assert all(value > 0 for value in summary["throughput"].values())
    used = episodes_used(run)
    assert len(used) == 4 * EPISODES
    assert set(used.values()) == {1}
    # Law 5: the learner's log-probabilities of fresh episodes are the behaviour ones.
    assert audits(run)[1]["metrics"]["fresh_logprob_gap"] < 1e-4
    # Law 7: one update ahead at most, as the config says.
    assert all(record["metrics"]["staleness_max"] <= 1 for record in audits(run).values())
    lines = read_metrics(run / "metrics.jsonl")
    assert [line.update for line in lines if "entente_loss" in line.metrics] == [1, 2, 3, 4]
    assert (run / "report.html").stat().st_size > 10_000
    assert [read_trace(path)["version"] for path in trace_files(run / "traces").values()] == [1, 2, 3, 4]
    members = json.loads((run / "population.json").read_text())["members"]
    assert {member["id"] for member in members} == {"bot/random", "bot/greedy", "policy/v2", "policy/v4"}
    inspected = subprocess.run(
        [*ENTENTE, "buffer", "inspect", str(run)], capture_output=True, text=True, timeout=600, check=True
    ).stdout
    counters = {line.split()[0]: float(line.split()[1].replace(",", "")) for line in inspected.splitlines()}
    assert counters["acknowledged"] == 4 * EPISODES
    assert counters["waiting"] == counters["delivered"] == counters["poison"] == 0
    evaluated = subprocess.run(
        [*ENTENTE, "evaluate", str(run), "--against", "random", "--games-per-country", "1", "--until", "1901",
         "--json", str(tmp_path / "rows.json")],
        capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    assert "AUSTRIA" in evaluated.stdout
    assert json.loads((tmp_path / "rows.json").read_text())["evaluations"][0]["games"] == 7
    audit_groups_of(run, tmp_path / "audit.json")
    refuse_a_corrupt_checkpoint(run)


def test_a_run_killed_at_random_moments_loses_and_repeats_no_episode(tmp_path: Path) -> None:
    run = tmp_path / "run"
    updates = 11
    arguments = (*QUICK, "--set", f"learner.updates={updates}", "--set", "learner.checkpoint_every=3")
    arguments = (
        *arguments,
        "--set",
        "learner.beta=0.02",
    )  # the reference is the run's first weights, also after a kill
    rng = random.Random(20)
    before: dict[int, dict[str, object]] = {}
    for attempt in range(2):
        go_on = () if attempt == 0 else ("--resume",)
        with TrainingProcess(run, *arguments, *go_on, config="smoke" if attempt == 0 else None) as training:
            target = min(last_update(run) + rng.randint(1, 4), updates - 1)
            training.wait_until(lambda target=target: last_update(run) >= target, f"update {target}")
            training.kill()
            assert training.survivors() == [], "killing the driver must end everything it started"
        before.update(audits(run))
    with TrainingProcess(run, "--resume", config=None) as training:
        assert training.finish() == 0, training.output()
    used = episodes_used(run)
    assert len(used) == updates * EPISODES
    assert set(used.values()) == {1}
    # Updates that were repeated after a kill used the same episodes.
    for version, record in audits(run).items():
        if version in before:
            assert record["episodes"] == before[version]["episodes"], f"update {version}"
            kl, earlier = record["metrics"]["reference_kl"], before[version]["metrics"]["reference_kl"]
            assert math.isclose(kl, earlier, rel_tol=1e-3, abs_tol=1e-9), f"update {version}"
    lines = [line.update for line in read_metrics(run / "metrics.jsonl") if "entente_loss" in line.metrics]
    assert lines == list(range(1, updates + 1))
    inspected = subprocess.run(
        [*ENTENTE, "buffer", "inspect", str(run)], capture_output=True, text=True, timeout=600, check=True
    ).stdout
    assert f"{updates * EPISODES}" in [line.split()[1] for line in inspected.splitlines() if "acknowledged" in line]


def test_ctrl_c_saves_and_a_dead_rollout_actor_is_replaced(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = (*QUICK, "--set", "learner.updates=12", "--set", "learner.checkpoint_every=100")
    with TrainingProcess(run, *arguments) as training:
        training.wait_until(lambda: last_update(run) >= 2, "two updates")
        actors = [p for p in training.family.values() if p.is_running() and "RolloutActor" in " ".join(p.cmdline())]
        assert actors, [p.cmdline() for p in training.family.values() if p.is_running()]
        actors[0].kill()
        seen = last_update(run)
        training.wait_until(lambda: last_update(run) >= seen + 2, "updates with a new actor")
        training.process.send_signal(signal.SIGINT)
        assert training.finish() == 130, training.output()
        assert "--resume" in training.output()
        assert training.survivors() == []
    saved = [int(folder.name) for folder in (run / "checkpoints").iterdir() if folder.name.isdigit()]
    assert max(saved) >= seen + 2, "Ctrl-C saves what was learned"
    with TrainingProcess(run, "--resume", config=None) as training:
        training.wait_until(lambda: last_update(run) > max(saved), "an update after the resume")
        training.process.send_signal(signal.SIGTERM)  # what job managers send
        assert training.finish() == 130, training.output()
        assert training.survivors() == []
    with TrainingProcess(run, "--resume", config=None) as training:
        assert training.finish() == 0, training.output()
    lines = [line.update for line in read_metrics(run / "metrics.jsonl") if "entente_loss" in line.metrics]
    assert lines == list(range(1, 13))
    used = episodes_used(run)
    assert len(used) == 12 * EPISODES
    assert set(used.values()) == {1}


def audit_groups_of(run: Path, out: Path) -> None:
    printed = subprocess.run(
        [*ENTENTE, "groups", "audit", str(run), "--gradients", "--json", str(out)],
        capture_output=True, text=True, timeout=600, check=True,
    ).stdout  # fmt: skip
    assert "recommended: country" in printed
    assert "leak check: every key is known before the actions it judges" in printed
    found = json.loads(out.read_text())
    assert {"country+phase", "country", "country+own_centers+phase"} <= {row["key"] for row in found["keys"]}
    assert all(-2 < row["leave_one_out_r2"] <= row["eta_squared"] <= 1 for row in found["keys"])
    # The newest update's episodes, with the newest weights: earlier episodes are not kept.
    gradients = found["gradients"]
    assert (gradients["batch_version"], gradients["checkpoint"], gradients["blocks"]) == (3, 4, 7)
    assert list(gradients["ways"])[:3] == ["none", "batch", "declared chain"]
    assert gradients["ways"]["none"]["deviation"]["value"] > 0


def refuse_a_corrupt_checkpoint(run: Path) -> None:
    weights = run / "checkpoints" / "4" / "model.safetensors"
    damaged = bytearray(weights.read_bytes())
    damaged[-1] ^= 1
    weights.write_bytes(bytes(damaged))
    for arguments in (
        ("evaluate", str(run), "--games-per-country", "1", "--until", "1901"),
        ("train", "--resume", "--run-dir", str(run)),
    ):
        code, text = run_entente(*arguments)
        assert code == 2
        assert "model.safetensors" in text
        assert "Traceback" not in text


def words_of(pid: int) -> str:
    """A process's command line; nothing where it is gone or a zombie."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:
        return ""


def run_entente(*arguments: str) -> tuple[int, str]:
    done = subprocess.run([*ENTENTE, *arguments], capture_output=True, text=True, timeout=600)
    return done.returncode, done.stderr


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_bad_input_gives_one_line_exit_code_2_and_leaves_no_process(tmp_path: Path) -> None:
    run = tmp_path / "run"
    not_a_game = tmp_path / "game.json"
    not_a_game.write_text("{}")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "config.json").write_text('{"model_type": "qwen3"}')
    started = set(psutil.pids())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        cases = {
            ("train", "smoke", "--set", "learner.learningrate=1"): "learner.learning_rate",
            ("train", "nothing.toml"): "shipped configs",
            ("train", "smoke", "--set", f"redis.url=redis://127.0.0.1:{free_port()}/0"): "127.0.0.1",
            ("train", "smoke", "--set", f"metrics.port={port}"): "metrics.port",
            ("train", "smoke", "--set", "rollout.actors=4000"): "not enough memory",
            ("train", "smoke", "--set", f"policy.path={foreign}"): "foreign",
            ("train", "--resume", "--run-dir", str(tmp_path / "none")): "no run to resume",
            ("play", "--seat", "FRNCE=dumbbot", "--out", str(tmp_path / "g.json")): "FRANCE",
            ("play", "--seat", "FRANCE=nobody", "--out", str(tmp_path / "g.json")): "dumbbot",
            ("evaluate", str(foreign)): "foreign",
            ("evaluate", "random", "--against", "nobody"): "dumbbot",
            ("report", str(foreign)): "foreign",
            ("nope",): "nope",
            ("train", "--bad"): "--bad",
            ("play", "--until", "1900", "--out", str(tmp_path / "g.json")): "1901",
            ("evaluate", "random", "--games-per-country", "0"): "games-per-country",
            ("evaluate", "random", "--against", ""): "names no player",
            ("evaluate", "random", "--json", str(tmp_path)): "it is a folder",
            ("bench", "--only", "nothing"): "game_loop",
            ("report", str(not_a_game)): "game",
            ("train", "smoke", "--set", "run.ray_address=foo"): "foo",
            ("train", "smoke", "--set", f"run.ray_address=127.0.0.1:{free_port()}"): "no Ray cluster",
        }
        for number, (arguments, hint) in enumerate(cases.items()):
            extra = (
                ("--run-dir", str(run / str(number)))
                if arguments[0] == "train" and "--run-dir" not in arguments
                else ()
            )
            code, text = run_entente(*arguments, *extra)
            lines = [line for line in text.splitlines() if line.startswith("error:")]
            assert code == 2, (arguments, text)
            assert len(lines) == 1, (arguments, text)
            assert "Traceback" not in text
            assert hint in lines[0], (arguments, lines[0])
    left = [words_of(pid) for pid in set(psutil.pids()) - started]
    assert not [line for line in left if str(tmp_path) in line]
