"""Lines of a command whose reader has ended, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_command_keeps_its_exit_code_when_the_reader_of_its_lines_has_ended(stream: str) -> None:
    script = f"import sys; from cluster.cli.output import say; sys.stdin.read(); say('1', err={stream == 'stderr'}); "
    script += f"say('2', err={stream == 'stderr'}); sys.exit(130)"
    pipes = {"stdin": subprocess.PIPE, stream: subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], **pipes) as command:  # type: ignore[call-overload]
        reader = getattr(command, stream)
        reader.close()
        command.stdin.close()
        assert command.wait(60.0) == 130
