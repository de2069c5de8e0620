"""Consoles draw on terminals alone: a notebook gets plain lines, without escape codes and without pages."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from services.metrics.display.console import console_on
from services.metrics.display.display import Display


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """What rich asks, and what a kernel sets."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-color")


@pytest.mark.usefixtures("notebook")
def test_a_notebook_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    console = console_on(out, Console)
    console.print(Text("done", style="bold red"))
    assert out.getvalue() == "done\n"
    assert not console.is_terminal
    with Display(total_updates=2) as display:
        display.stage("training")
    shown = capsys.readouterr().out
    assert shown.endswith(" training\n")
    assert shown[:-1].isprintable()


def test_a_terminal_is_drawn_on_and_a_file_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert console_on(Terminal(), Console).is_terminal
    assert not console_on(io.StringIO(), Console).is_terminal
