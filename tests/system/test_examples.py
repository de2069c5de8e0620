"""The examples and the notebook run as a newcomer would run them, with small values."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

from cluster.runs.folder import RunFolder, audits, last_update
from tests.paths import ROOT
from tests.system.support.training_process import END_S, PATIENCE_S, handle_stop_signals

pytestmark = [pytest.mark.system, pytest.mark.timeout(3600)]

EXAMPLES = ROOT / "tests" / "examples"
SHORT = {
    "learner.updates": 1,
    "game.until_year": 1901,
    "evaluation.games_per_country": 1,
    "evaluation.until_year": 1901,
    "evaluation.against": ["random"],
}
SET = [part for key, value in SHORT.items() for part in ("--set", f"{key}={json.dumps(value)}")]


def run_example(name: str, *arguments: str, folder: Path) -> str:
    """Run an example in an empty folder; return what it printed."""
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b" not in done.stdout, "escape codes where there is no terminal"
    return done.stdout


def test_every_example_is_tested_here_and_says_what_it_does() -> None:
    names = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert names == {
        "own_model_lora.py",
        "own_grouping_keys.py",
        "own_world.py",
        "remote_player.py",
        "trl_training.py",
        "quickstart.ipynb",
    }
    for name in names - {"quickstart.ipynb"}:
        command = [sys.executable, str(EXAMPLES / name), "--help"]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert f"python tests/examples/{name}" in shown.stdout


def test_an_own_model_is_trained_with_adapters_and_evaluated(tmp_path: Path) -> None:
    printed = run_example("own_model_lora.py", "--out", "own", *SET, folder=tmp_path)
    run = RunFolder(tmp_path / "own" / "run")
    assert run.stored_config().policy.path == "own/model"
    adapter = run.checkpoints / "1" / "adapter"
    assert (adapter / "adapter_model.safetensors").is_file()
    assert f"adapter: {adapter.relative_to(tmp_path)}" in printed
    assert "centres against six greedy (7 games)" in printed


def test_own_grouping_keys_decide_the_groups(tmp_path: Path) -> None:
    printed = run_example("own_grouping_keys.py", "--out", "keys", *SET, folder=tmp_path)
    assert "refused: " in printed
    assert "allow_outcome_keys" in printed
    assert "groups by country+segment+own_centers, " in printed
    assert audits(tmp_path / "keys")[1]["keys"] == ["country+segment+own_centers", "country+segment", "country"]


def test_trls_trainer_trains_on_our_games(tmp_path: Path) -> None:
    printed = run_example("trl_training.py", "--out", "trl", "--steps", "2", folder=tmp_path)
    assert printed.count("mean chips a game") == 2
    assert (tmp_path / "trl" / "checkpoint-2" / "model.safetensors").is_file()


def test_a_remote_player_plays_a_game(tmp_path: Path) -> None:
    printed = run_example("remote_player.py", "--out", "game.html", "--until", "1902", folder=tmp_path)
    assert ", 0 defective orders" in printed
    assert "remote:friend" in (tmp_path / "game.html").read_text()


def run_as_shown(command: str, folder: Path) -> str:
    """Run a command of the page about worlds in a folder, by this environment's programs; return what it printed."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE_S, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_an_own_world_is_trained_by_its_import_path(tmp_path: Path) -> None:
    """As its program and as the page about worlds show it."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "examples").symlink_to(EXAMPLES)
    printed = run_as_shown("python tests/examples/own_world.py --out runs/own-world", tmp_path)
    assert "trained: wins " in printed
    assert re.search(r"^update 2: \d+ groups by player\+stones$", printed, re.MULTILINE)
    assert audits(tmp_path / "runs" / "own-world")[2]["keys"] == ["player+stones", "player"]

    page = (ROOT / "services" / "environments" / "README.md").read_text(encoding="utf-8")
    [config] = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "nim.toml").write_text(config)
    (tmp_path / "own_world.py").write_text((EXAMPLES / "own_world.py").read_text(encoding="utf-8"))
    run_as_shown("PYTHONPATH=. entente train nim.toml --run-dir runs/nim", tmp_path)
    summary = RunFolder(tmp_path / "runs" / "nim").read_summary()
    assert summary["updates"] == 2
    assert [row["games"] for row in summary["evaluations"]] == [20, 20]


def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path: Path) -> None:
    notebook: Any = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "committed without outputs"
    [at] = [place for place, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", ())]
    notebook.cells.insert(at + 1, nbformat.v4.new_code_cell(f"overrides = {SHORT!r}"))
    NotebookClient(
        notebook,
        timeout=int(PATIENCE_S),
        startup_timeout=int(PATIENCE_S),
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    outputs = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    assert "\\u001b" not in json.dumps(outputs), "escape codes in a notebook"
    printed = "".join(output["text"] for output in outputs["train"] if output["name"] == "stdout")
    assert "update 1/1" in printed
    assert "trained    " in outputs["evaluations"][0]["text"]
    assert outputs["evaluate"][-1]["data"]["text/plain"].startswith("[('random', ")
    assert outputs["play"][-1]["data"]["text/html"].startswith("<iframe srcdoc=")
    assert RunFolder(tmp_path / "runs" / "quickstart").read_summary()["updates"] == 1


def test_an_interrupted_program_has_saved_its_run_and_goes_on(tmp_path: Path) -> None:
    """A program inside an event loop is interrupted in ``train``, and uses what was saved."""
    program = """
        import asyncio, signal, threading, time
        from pathlib import Path
        import entente

        def interrupt():
            while not Path("run/audit/000002.json").exists():
                time.sleep(0.1)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        async def cell():
            threading.Thread(target=interrupt, daemon=True).start()
            try:
                entente.train("smoke", "run", overrides={
                    "learner.updates": 10**6, "learner.checkpoint_every": 1000, "game.until_year": 1901,
                    "evaluation.against": [],
                })
            except KeyboardInterrupt as stopped:
                print("stopped:", stopped)
            run = entente.load_run("run")
            print("saved:", max(run.checkpoints))
            print("plays:", entente.evaluate(run, games_per_country=1, until_year=1901)[0]["games"])

        loop = asyncio.new_event_loop()  # as a notebook's, which leaves SIGINT alone
        handler = signal.getsignal(signal.SIGINT)
        loop.run_until_complete(cell())
        print("restored:", signal.getsignal(signal.SIGINT) is handler)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, env=dict(os.environ),
        start_new_session=True, preexec_fn=handle_stop_signals,
    )  # fmt: skip
    try:
        printed, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        for left in _session(process.pid):
            left.send_signal(signal.SIGKILL)
        process.wait(END_S)
    lines = printed.splitlines()
    assert "stopped: saved; go on with entente.train(run_dir='run', resume=True)" in lines, printed
    assert f"saved: {last_update(tmp_path / 'run')}" in lines, "the newest update is durable"
    assert lines[-2:] == ["plays: 7", "restored: True"], printed


def _session(leader: int) -> list[psutil.Process]:
    """The processes that a program left in its session."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found
