"""A tracker's own process: ``python -m services.metrics.trackers.process NAME``.

It reads a ``TrackedRun`` and then messages, one JSON document a line, and answers each with a line: empty, or what went
wrong. It ends with its input, also when the run is killed; what was received is then written or sent first, for a
limited time. Whatever the library prints goes to stderr, and stop signals are ignored, because the run acts on them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

import msgspec

from grpo_core.errors import one_line
from services.metrics.trackers.registry import open_tracker
from services.metrics.trackers.tracker import Evaluations, Message, Replay, Series, TrackedRun, Tracker

FINISH_S = 120.0  # for the library to write or send everything; the run itself waits less


def main(name: str) -> None:
    """Serve one tracker until the input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(error: BaseException | None) -> None:
        told = "" if error is None else one_line(f"{type(error).__name__}: {error}", 300)
        answers.write(f"{told}\n")
        answers.flush()

    tracker: Tracker | None = None
    try:
        for line in sys.stdin.buffer:
            try:
                if tracker is None:
                    tracker = open_tracker(name, msgspec.json.decode(line, type=TrackedRun))
                else:
                    pass_on(tracker, msgspec.json.decode(line, type=Message))
            except Exception as error:  # noqa: BLE001 - of any library: the run is told, and goes on
                answer(error)
            else:
                answer(None)
        _finish_soon()
        if tracker is not None:
            tracker.finish()
            answer(None)
    except BrokenPipeError:  # the run has been killed
        _finish_soon()
        if tracker is not None:
            tracker.finish()
    except Exception as error:  # noqa: BLE001 - as above
        answer(error)


def pass_on(tracker: Tracker, message: Message) -> None:
    """Give a tracker one message."""
    match message:
        case Series():
            tracker.series(message)
        case Evaluations():
            tracker.evaluations(message)
        case Replay():
            tracker.replay(message)


def _finish_soon() -> None:
    """End this process after ``FINISH_S`` in any case."""
    timer = threading.Timer(FINISH_S, os._exit, (1,))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    main(sys.argv[1])
