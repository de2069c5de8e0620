"""The files that a run leaves: audit records, measurements, summary, configuration; shown, examined and resumed."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import psutil

from cluster.configs.loader import load_config
from cluster.driver.metrics_recorder import MetricsRecorder
from cluster.runs.folder import RunFolder, audits, episodes_used, last_update
from cluster.runs.imitation_report import read_report
from cluster.runs.run_request import requested_run
from services.metrics.display.display import Display
from services.replay.server.embedded import running_url
from tests.fuzz.contract import Case, Kind, command
from tests.fuzz.mutations import edit
from tests.fuzz.run_folder import OVERRIDES, copy_to

SERVER = "redis/server.json"
FILES = (
    ("audit/000001.json", "json"),
    ("audit/000002.json", "json"),
    ("audit/000001.json", "json"),
    ("audit/last_batch.bin", "bytes"),
    ("metrics.jsonl", "lines"),
    ("metrics.jsonl", "lines"),
    ("summary.json", "json"),
    ("summary.json", "json"),
    ("config.toml", "bytes"),
    ("games/trained-random/FRANCE.json", "json"),
    ("restarts.jsonl", "lines"),
    ("imitation.json", "json"),
    ("run_id", "bytes"),
    ("format", "bytes"),
    ("ratings.json", "json"),
    (SERVER, "json"),
)
STRANGE_NAMES = (
    "x.json",
    "-1.json",
    "1" * 200 + ".json",
    "²,.json",
    " 3.json",
    "000009.json",
    ".json",
    "1e5.json",
    "\udcff.json",
)
USES = ("report", "doctor", "audit", "audit gradients", "resume", "request", "open")


def cases(rng: random.Random) -> Iterator[Case]:
    """One file edited, or one of a strange name added; then one use."""
    while True:
        (file, shape), seed = rng.choice(FILES), rng.randrange(1 << 30)
        strange = rng.choice(STRANGE_NAMES) if rng.random() < 0.07 else None
        use = (
            rng.choice(USES)
            if rng.random() < 0.85
            else {"audit": "audit", "summ": "report", "metr": "report", "games": "report"}.get(file[:4], "doctor")
        )
        yield Case(f"{strange or file}, seed {seed}, then {use}", (file, shape, strange, seed, use))


def run(case: Case, folder: Path, shared: object) -> None:
    """Edit a copy of the run, and use it."""
    file, shape, strange, seed, use = case.input
    run_dir, rng = copy_to(folder), random.Random(seed)
    if file == SERVER:
        _server(run_dir, rng)
        return
    if strange:
        (run_dir / "audit" / strange).write_text("{}")
    else:
        edit(rng, run_dir / file, shape)
    if use == "report":
        command("report", run_dir)
    elif use == "doctor":
        command("doctor", "--run", run_dir)
    elif use == "audit":
        command("groups", "audit", run_dir, "--json", run_dir / "out.json")
    elif use == "audit gradients":
        command("groups", "audit", run_dir, "--gradients", "--turns", 4)
    elif use == "request":
        requested_run("smoke", OVERRIDES, run_dir, resume=rng.random() < 0.5, start_or_resume=False)
        requested_run("smoke", OVERRIDES, run_dir, resume=False, start_or_resume=True)
    elif use == "resume":
        _resume(RunFolder(run_dir))
    else:
        last_update(run_dir)
        audits(run_dir)
        episodes_used(run_dir)
        read_report(run_dir)
        _ = RunFolder(run_dir).run_id


def _server(run_dir: Path, rng: random.Random) -> None:
    """What `buffer inspect` reads; the record is of this process, so that it is read to its end."""
    path = run_dir / SERVER
    path.parent.mkdir()
    state = {"pid": os.getpid(), "started": psutil.Process().create_time(), "port": 1, "url": "redis://127.0.0.1:1/0"}
    path.write_text(json.dumps(state))
    edit(rng, path)
    running_url(path.parent)


def _resume(folder: RunFolder) -> None:
    """What the driver reads before it continues a run."""
    config = load_config("smoke", OVERRIDES)
    with folder.held():
        folder.open(config, resume=True)
        with Display(9, enabled=False) as display, MetricsRecorder(config, folder, display, 2, None):
            pass


KIND = Kind("run files", cases, run, quick=15)
