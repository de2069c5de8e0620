"""Every command that README and guides show is run as a newcomer would; settings only shorten it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.runs.folder import episodes_used
from tests.chat_models import save_chat_model
from tests.paths import ROOT
from tests.system.readme.commands import COMMANDS, Elsewhere, Run, shown_blocks, shown_commands
from tests.system.support.endpoint_thread import endpoint_in_a_thread, first_legal_orders
from tests.system.support.hub_server import hub
from tests.system.support.training_process import PATIENCE_S, handle_stop_signals

pytestmark = [pytest.mark.system, pytest.mark.timeout(3600)]


class Newcomer:
    """A folder of one's own, the environment that `make setup` made, and what the pages take for granted."""

    def __init__(self, folder: Path, hub_url: str) -> None:
        self.folder = folder
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HF_ENDPOINT": hub_url,
            "HF_HOME": str(folder / "hub"),
            "HF_HUB_OFFLINE": "0",
            "COLUMNS": "200",
        }

    def run(self, words: list[str], exit_code: int = 0) -> str:
        """Run a command to its end and return what it printed."""
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=PATIENCE_S, cwd=self.folder, env=self._environment,
            preexec_fn=handle_stop_signals,
        )  # fmt: skip
        printed = done.stdout + done.stderr
        assert done.returncode == exit_code, printed
        assert "Traceback" not in printed
        assert "\x1b" not in printed, "escape codes where there is no terminal"
        return printed


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    folder = tmp_path_factory.mktemp("newcomer")
    model = save_chat_model(tmp_path_factory.mktemp("hub") / "model", context_length=8192)
    (folder / "cluster").symlink_to(ROOT / "cluster")  # `make demo` names a config there
    with endpoint_in_a_thread(first_legal_orders) as endpoint, hub({"Qwen/Qwen3-0.6B": model}) as server:
        (players,) = shown_blocks("toml")
        (folder / "players.toml").write_text(players.replace("http://127.0.0.1:8000/v1", endpoint.url))
        yield Newcomer(folder, server.url)


def literally(shown: str) -> list[str]:
    """The words of a command; those of a make target are the words that it runs."""
    words = shlex.split(shown.replace("RUN", "runs/demo"))
    if words[0] != "make":
        return words
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=True
    )
    program, *rest = shlex.split(done.stdout.splitlines()[-1])
    return [Path(program).name, *rest]


def test_every_command_of_readme_and_guides_is_run_here_or_elsewhere() -> None:
    assert set(shown_commands()) == {shlex.join(shlex.split(command.shown)) for command in COMMANDS}
    tests = [command.where for command in COMMANDS if isinstance(command, Elsewhere) and "/" in command.where]
    assert all((ROOT / test).is_file() for test in tests)


@pytest.mark.parametrize("command", [c for c in COMMANDS if isinstance(c, Run)], ids=lambda command: command.shown)
def test_a_command_does_what_the_pages_say(command: Run, newcomer: Newcomer) -> None:
    printed = newcomer.run([*literally(command.shown), *shlex.split(command.shorter)], command.exit_code)
    assert command.prints in printed
    assert not command.writes or (newcomer.folder / command.writes).exists(), printed


def test_a_chat_model_learned_from_each_episode_once(newcomer: Newcomer) -> None:
    used = episodes_used(newcomer.folder / "runs" / "gpu")
    assert len(used) == 14
    assert set(used.values()) == {1}


def test_the_lines_of_python_run(newcomer: Newcomer) -> None:
    (program,) = shown_blocks("python")
    printed = newcomer.run([sys.executable, "-c", program])
    assert "('dumbbot', " in printed
