"""The live terminal display of a training run; plain lines where stdout is no terminal, as in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from grpo_core.errors import one_line
from services.metrics.display.console import console_on
from services.metrics.display.layout import DisplaySnapshot, DisplayState, plain_line, render

_REFRESHES_PER_SECOND = 4
_LONGEST_LINE = 2000  # characters; what a notice quotes may come from anywhere
_LOG_EVERY_S = 30.0  # the longest time of a stage without a line, without a terminal


class _PatientConsole(Console):
    def on_broken_pipe(self) -> None:
        """Show nothing from now on; by default the process would exit, and a run that is stopped would not save."""
        with suppress(SystemExit):
            super().on_broken_pipe()


class Display:
    """Shows a training run. It is a context manager, which restores the terminal at the end of its block."""

    def __init__(
        self,
        total_updates: int,
        enabled: bool = True,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Draw nothing before the block is entered; ``enabled=False`` gives plain lines even on a terminal."""
        self._console = console or console_on(sys.stdout, _PatientConsole)
        self._clock = clock
        self._state = DisplayState(total_updates, clock(), stage_started=clock())
        self._live: Live | None = None
        self._last_line = clock()
        if enabled and self._console.is_terminal:
            self._live = Live(
                console=self._console,
                get_renderable=lambda: render(self._state, self._clock(), self._console.width),
                refresh_per_second=_REFRESHES_PER_SECOND,
            )

    def __enter__(self) -> Self:
        """Start drawing."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Draw once more and restore the terminal."""
        if self._live is not None:
            self._live.stop()

    def stage(self, text: str, total: int | None = None) -> None:
        """Name the current stage; ``total`` gives it a bar that ``advance`` moves."""
        state, text = self._state, one_line(text)
        if self._live is None and text != state.stage:
            self.log(f"{text}" + (f" (0/{total:,})" if total else ""))
        state.stage, state.stage_total, state.stage_done, state.stage_started = text, total, 0, self._clock()

    def advance(self, n: int = 1) -> None:
        """Count ``n`` more pieces of the current stage as done; without a terminal, print a line every 30 seconds."""
        state = self._state
        state.stage_done += n
        if self._live is None and state.stage_total and self._clock() - self._last_line >= _LOG_EVERY_S:
            self.log(f"{state.stage} ({state.stage_done:,}/{state.stage_total:,})")

    def update(self, snapshot: DisplaySnapshot) -> None:
        """Show a finished update."""
        self._state.add(snapshot, self._clock())
        if self._live is None:
            self.log(plain_line(self._state, self._clock()))

    def log(self, text: str) -> None:
        """Print a line above the display, with the time; where it cannot be printed, on a full disk, it is lost."""
        stamp, text = time.strftime("%H:%M:%S"), one_line(text, _LONGEST_LINE)
        self._last_line = self._clock()
        with suppress(OSError):
            if self._live is None:
                # No wrapping: an event is one line of a log.
                self._console.print(Text(f"{stamp} {text}"), soft_wrap=True)
            else:
                self._console.print(Text(stamp, style="dim"), Text(text))
