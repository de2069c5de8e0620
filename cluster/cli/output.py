"""Lines of a command whose reader may end first: a run goes on, or saves, when ``| tee log`` has ended."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def say(text: str, *, err: bool = False) -> None:
    """Print a line, on stderr if ``err``; it is lost if its reader has ended or the disk is full."""
    stream = sys.stderr if err else sys.stdout
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        discard(stream)
    except OSError:
        return


def discard(stream: TextIO) -> None:
    """Send a stream nowhere: what is still buffered would fail again at the end, and change the exit code."""
    with suppress(OSError, ValueError):  # it has no descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
