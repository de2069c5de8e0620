"""Runs cases in processes that can be killed, and counts what became of them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzz.contract import HANG_S, Case, Kind, Outcome, first_cases, judge, kinds

MEMORY_BYTES = 12 << 30  # of a case's process, so that one which reads without end is a finding
START_S = 600.0  # for a process to import its modules and prepare


@dataclass(slots=True)
class Tally:
    """What became of one kind's cases."""

    kind: str
    cases: int = 0
    refused: int = 0
    tracebacks: int = 0
    hangs: int = 0
    longest: int = 0
    slowest: float = 0.0  # seconds
    findings: list[tuple[str, Outcome]] = field(default_factory=list)  # number and name of the case, and its outcome

    def add(self, number: int, case: Case, outcome: Outcome) -> None:
        """Count one case."""
        self.cases += 1
        self.refused += outcome.verdict == "refused"
        self.tracebacks += outcome.verdict == "traceback"
        self.hangs += outcome.verdict == "hang"
        self.longest = max(self.longest, outcome.longest)
        self.slowest = max(self.slowest, outcome.seconds)
        if outcome.is_finding:
            self.findings.append((f"{number}: {case.name[:200]!r}", outcome))


def tally(kind: Kind, count: int, seed: int) -> Tally:
    """Run the first ``count`` cases of a kind; a process that hangs or dies is replaced by one for the next case."""
    found = first_cases(kind, count, seed)
    total = Tally(kind.name)
    begin = 0
    while begin < count:
        with tempfile.TemporaryDirectory(prefix="entente-fuzz-") as top:  # also if its process is killed
            for number, outcome in _in_process(kind.name, begin, count, seed, top):
                total.add(number, found[number], outcome)
                begin = number + 1
    return total


def _in_process(name: str, begin: int, count: int, seed: int, top: str) -> Iterator[tuple[int, Outcome]]:
    """The outcomes of cases from ``begin`` on, the last of which may have ended the process."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe(duplex=False)
    worker = spawn.Process(target=_work, args=(name, begin, count, seed, top, there))
    worker.start()
    there.close()
    number, limit_s = begin, START_S
    try:
        while number < count:
            if not here.poll(limit_s):
                yield number, Outcome("hang", "its process had to be killed", 0)
                return
            try:
                outcome = here.recv()
            except EOFError:
                worker.join(10)
                yield number, Outcome("traceback", f"its process ended with code {worker.exitcode}", 0)
                return
            if outcome is not None:  # None: prepared
                yield number, outcome
                number += 1
            limit_s = 2 * HANG_S  # the alarm in the process comes first
    finally:
        here.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid or 0, signal.SIGKILL)  # and the servers that it started
        worker.kill()  # it may have no group yet
        worker.join(10)


def _work(name: str, begin: int, count: int, seed: int, top: str, parent: Connection) -> None:
    tempfile.tempdir = top  # whatever is made on the way
    os.setpgid(0, 0)
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    kind = next(kind for kind in kinds() if kind.name == name)
    (Path(top) / "shared").mkdir()
    with kind.prepare(Path(top) / "shared") as shared:
        parent.send(None)
        for number, case in enumerate(first_cases(kind, count, seed)[begin:], begin):
            folder = Path(top) / f"case-{number}"
            folder.mkdir()
            parent.send(judge(kind, case, folder, shared))
            shutil.rmtree(folder, ignore_errors=True)


def table(tallies: Sequence[Tally]) -> str:
    """The counts, one line a kind, and the sums."""
    head = f"{'kind':<22}{'cases':>7}{'refused':>9}{'tracebacks':>12}{'hangs':>7}{'longest line':>14}{'slowest':>10}"
    rows = [
        f"{each.kind:<22}{each.cases:>7}{each.refused:>9}{each.tracebacks:>12}{each.hangs:>7}{each.longest:>14}"
        f"{each.slowest:>8.1f} s"
        for each in tallies
    ]
    sums = [sum(getattr(each, name) for each in tallies) for name in ("cases", "refused", "tracebacks", "hangs")]
    longest = max((each.longest for each in tallies), default=0)
    return "\n".join([head, *rows, f"{'all':<22}{sums[0]:>7}{sums[1]:>9}{sums[2]:>12}{sums[3]:>7}{longest:>14}"])


if __name__ == "__main__":
    # python -m tests.fuzz.runner COUNT SEED [KIND...]: looks for findings while something is being mended.
    import sys

    wanted, started = sys.argv[3:], time.monotonic()
    try:
        ran = [tally(kind, int(sys.argv[1]), int(sys.argv[2])) for kind in kinds() if not wanted or kind.name in wanted]
    except KeyboardInterrupt:
        traceback.print_exc()
        sys.exit(130)
    for each in ran:
        for label, outcome in each.findings:
            print(f"--- {each.kind} {label}: {outcome.verdict}\n{outcome.detail[-1500:]}")
    print(table(ran), f"\n{time.monotonic() - started:.0f} s")
