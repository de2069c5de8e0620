"""A run whose disk is full ten times, each at a random moment: one line, exit code 2, and nothing is lost.

``ENTENTE_RECORD_FULL_DISKS`` names a file for the record.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest

from cluster.runs.folder import episodes_used, last_update
from cluster.runs.provenance import commit, provenance
from tests.system.support.training_process import TrainingProcess
from tests.system.training.test_full_disk import MANY, SETTINGS, check_the_end, fill, finish
from tests.system.training.test_full_disk import small_disk as small_disk

TIMES = 10
LONGEST_PAUSE_S = 4.0  # a few updates with their checkpoints


@pytest.mark.timeout(3600)
def test_ten_full_disks_lose_nothing(small_disk: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    run, filler = small_disk, small_disk / "filler"
    ends = []
    for number in range(TIMES):
        begun = ("--resume",) if number else ()
        with TrainingProcess(run, *SETTINGS, *MANY, *begun, config=None if number else "smoke") as training:
            before = last_update(run)
            training.wait_until(lambda before=before: last_update(run) > before, "an update")
            time.sleep(rng.uniform(0, LONGEST_PAUSE_S))
            with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
                fill(file)
            full_at = time.monotonic()
            check_the_end(training, "the disk is full")
            took_s = time.monotonic() - full_at
            shown = training.output().splitlines()[-1].replace(str(run), "RUN")
        ends.append({"update": last_update(run), "seconds": round(took_s, 1), "exit_code": 2, "last_line": shown})
        print(ends[-1])
        filler.unlink()
    finish(run, *SETTINGS)
    if path := os.environ.get("ENTENTE_RECORD_FULL_DISKS"):
        record = {
            "commit": commit(),
            "machine": provenance(),
            "seed": seed,
            "ends": ends,
            "updates": last_update(run),
            "episodes_used_once": len(episodes_used(run)),
        }
        Path(path).write_text(json.dumps(record, indent=1) + "\n")
