"""Stops a server process when the process that started it ends; this script uses the standard library only.

    python -I -S supervisor.py LOG BINARY ...

Standard input brings the length of the server's configuration and the configuration, so that its password is on no
command line. At the end of standard input, which comes even if the parent is killed, it stops the server: SIGINT first,
SIGKILL after ``GRACE_S``. Both ignore SIGTERM, which job managers send to every process of a run.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

GRACE_S = 10.0
STOP_SIGNAL = signal.SIGINT  # the server stops as at SIGTERM, its data on disk
_PR_SET_PDEATHSIG = 1
_IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)  # the end of standard input stops the server


def main() -> int:
    """Run the server and return its exit status."""
    log_path, *command = sys.argv[1:]
    length = int(sys.stdin.buffer.readline())
    configuration = sys.stdin.buffer.read(length)
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

    def prepare() -> None:
        # Between fork and exec of a single-threaded process.
        for number in _IGNORED:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file at its limit is an error in the log, not a sudden end
        # Blocked, because the server would install a handler for an ignored signal.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        if libc is not None:  # Linux signals the server when this process is killed
            libc.prctl(_PR_SET_PDEATHSIG, STOP_SIGNAL)

    with open(log_path, "ab") as log:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, preexec_fn=prepare)
    assert server.stdin is not None
    with suppress(BrokenPipeError):  # it exited at once; its exit status and log say why
        server.stdin.write(configuration)
        server.stdin.close()
    threading.Thread(target=_stop_when_orphaned, args=(server,), daemon=True).start()
    return server.wait()


def _stop_when_orphaned(server: subprocess.Popen[bytes]) -> None:
    while os.read(0, 4096):
        pass
    server.send_signal(STOP_SIGNAL)
    try:
        server.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        server.kill()


if __name__ == "__main__":
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    sys.exit(main() & 0xFF)
