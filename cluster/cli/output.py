"""Lines of a command that outlives whoever reads them: a run goes on, or saves, when ``| tee log`` has ended."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def say(text: str, *, err: bool = False) -> None:
    """Print a line, on stderr if ``err``; it is lost if its reader has ended or the disk is full."""
    stream = sys.stderr if err else sys.stdout
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        with suppress(OSError):  # what is still buffered would fail again at the end, and change the exit code
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
    except OSError:
        return
