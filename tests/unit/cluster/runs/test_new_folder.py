"""A new folder that is there whole or not at all."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.runs.new_folder import new_folder

KILLED = """
import os, signal, sys
from pathlib import Path
from cluster.runs.new_folder import new_folder

with new_folder(Path(sys.argv[1])) as draft:
    (draft / "weights").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def drafts(folder: Path) -> list[Path]:
    return sorted(folder.glob(".*.draft-*"))


def test_drafts_of_killed_processes_are_removed_and_no_others(tmp_path: Path) -> None:
    for name in ("out", "other"):
        ended = subprocess.run(
            [sys.executable, "-c", KILLED, str(tmp_path / name)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            check=False,
        )
        assert ended.returncode == -signal.SIGKILL
    of_other, of_killed = drafts(tmp_path)
    running = tmp_path / f".out.draft-{os.getppid()}-{socket.gethostname()}"
    elsewhere = Path(f"{of_killed}-elsewhere")  # another machine's, on a shared disk
    for draft in (running, elsewhere):
        draft.mkdir()
    with new_folder(tmp_path / "out") as draft:
        (draft / "weights").write_text("whole")
    assert (tmp_path / "out" / "weights").read_text() == "whole"
    assert drafts(tmp_path) == sorted([of_other, running, elsewhere])


def test_an_error_leaves_no_draft(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "deep" / "out"):
        raise ZeroDivisionError
    assert not list((tmp_path / "deep").iterdir())
