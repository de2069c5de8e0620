"""The command line is the last guard: whatever a command refuses is one printable line of at most 500 characters."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.cli.app import main
from tests.paths import ROOT


@pytest.fixture
def entente(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Calls the command line in an empty folder; returns the exit code and its one line on standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["entente", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        line = capsys.readouterr().err
        assert line.endswith("\n")
        assert line[:-1].isprintable()
        assert len(line) <= 501
        return end.value.code, line

    return call


@pytest.mark.parametrize(
    "arguments",
    [
        ["x" * 100_000],
        ["doctor", "--" + "x" * 100_000],
        ["doctor", "\x1b[31mred"],
        ["report", "n" * 300],
        ["report", "a/" * 3000],
        ["report", "\udcff\udc80"],
        ["population", "list", "n" * 300],
        ["population", "show", "n\x1b]0;title\x07", "y" * 10_000],
        ["play", "--out", "out.json", "--default", "x" * 10_000],
        ["play", "--out", "out.json", "--seat", "x" * 10_000],
        ["play", "--out", "n" * 300],
        ["play", "--out", "out.json", "--config", "n" * 300],
        ["play", "--out", "out.json", "--seed", "9" * 5000],
        ["evaluate", "random", "--games-per-country", "2" * 30],
        ["evaluate", "random", "--against", "x" * 10_000],
        ["population", "rate", ".", "--games", "2" * 30],
        ["groups", "audit", "n" * 300],
        ["train", "smoke", "--set", "learner." + "x" * 100_000 + "=1"],
    ],
)
def test_hostile_words_of_a_command_line_are_answered_in_one_line(entente: Any, arguments: list[str]) -> None:
    code, line = entente(*arguments)
    assert code == 2
    assert line.startswith("error: ")


def test_a_file_that_the_system_refuses_is_named(entente: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_: object) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), "/some/file")

    monkeypatch.setattr("cluster.cli.app.app", fails)
    code, line = entente()
    assert (code, "/some/file: Permission denied" in line) == (2, True)


def test_other_errors_of_the_system_are_bugs(entente: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_: object) -> None:
        raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))

    monkeypatch.setattr("cluster.cli.app.app", fails)
    monkeypatch.setattr(sys, "argv", ["entente"])
    with pytest.raises(BrokenPipeError):
        main()


def test_a_command_whose_output_cannot_be_written_ends_in_one_line() -> None:
    command = [sys.executable, "-m", "cluster.cli", "train", "--keys"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=120, cwd=ROOT)
    line = b"error: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, line)
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, timeout=120, cwd=ROOT)
    os.close(writes)
    assert (done.returncode, done.stderr) == (1, b"")  # ``| head`` has seen enough


def test_a_file_that_waits_for_ever_is_no_config_and_no_game(entente: Any) -> None:
    os.mkfifo("fifo.json")
    assert "a FIFO" in entente("report", "fifo.json")[1]
    assert "a FIFO" in entente("doctor", "fifo.json")[1]
    assert "a FIFO" in entente("play", "--out", "out.json", "--config", "fifo.json")[1]
    assert "a FIFO" in entente("play", "--out", "fifo.json", "--until", "1901", "--default", "hold")[1]


def test_a_path_that_is_no_text_can_be_shown(tmp_path: Path) -> None:
    out = tmp_path / "\udcff"
    command = [sys.executable, "-m", "cluster.cli", "play", "--default", "hold", "--until", "1901", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert rb"saved to " in done.stdout
    assert rb"\udcff" in done.stdout


@pytest.fixture
def interruption(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Interrupts ``entente train`` where it calls a function."""
    monkeypatch.setattr("cluster.runtime.stop_signals.stop_at_signals", lambda: None)
    monkeypatch.setattr("cluster.runtime.local_ray.prepare_local_ray", lambda: None)

    def interrupt_at(function: str) -> None:
        def interrupt(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(function, interrupt)

    return interrupt_at


def test_an_interruption_before_anything_has_begun_says_so(entente: Any, interruption: Any) -> None:
    interruption("cluster.runs.run_request.requested_run")
    assert entente("train", "smoke") == (130, "stopped\n")


def test_a_run_that_has_nothing_to_resume_is_to_be_started_again(
    entente: Any, interruption: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    interruption("cluster.runs.restarts.keep_training")
    assert entente("train", "smoke", "--run-dir", "new") == (
        130,
        "stopped before there was anything to save; start it again\n",
    )

    def begin(_: object, run_dir: Path, **options: object) -> None:
        (run_dir / "checkpoints" / "0").mkdir(parents=True)
        (run_dir / "checkpoints" / "0" / "manifest.json").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("cluster.runs.restarts.keep_training", begin)
    resume, again = entente("train", "smoke", "--run-dir", "a"), entente("train", "smoke", "--start-or-resume")
    assert resume == (130, "stopped; continue with: entente train --resume --run-dir a\n")
    assert again == (130, "stopped; continue with: the same command\n")
