"""What a run's recorder gives the trackers, read back with each library's own reader."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cluster.actors.messages import UpdateReport
from cluster.configs.loader import load_config
from cluster.driver.metrics_recorder import MetricsRecorder
from cluster.runs.folder import RunFolder
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.metrics.display.display import Display
from tests.diplomacy_rows import result, row

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

NAMES = ("tensorboard", "wandb", "trackio")
CONFIG = load_config(
    "smoke", [f"metrics.trackers={json.dumps(NAMES)}", "run.seed=41", "redis.url=redis://someone:hush@127.0.0.1:1/0"]
)
LOSS, CENTERS = "entente_loss", "entente_evaluation_centers/random"
ITALY = "entente_country_centers/ITALY"
SWAPS = "entente_weight_swap_seconds"


def report(version: int, loss: float) -> UpdateReport:
    return UpdateReport(
        version=version, metrics={LOSS: loss, "entente_country_centers{country=ITALY}": 4.0 + version},
        roles={}, episodes=14, stale_episodes=0, tokens=10, busy_s=1.0, defective_orders=0, truncated=0,
        weight_bytes=5, buffer={"waiting": 0, "delivered": 0, "bytes": 0, "duplicates": 0, "poison": 0},
    )  # fmt: skip


def evaluation(version: int, centers: int) -> dict[str, Any]:
    results = [result(power, centers) for power in POWERS for _ in range(2)]
    return row(results, checkpoint=f"checkpoints/{version}", against="random", until_year=1901)


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunFolder]:
    """A run of two processes: updates 1 to 3, and after a crash behind checkpoint 2 updates 3 and 4."""
    folder = RunFolder(tmp_path_factory.mktemp("tracked") / "run")
    folder.open(CONFIG, resume=False)
    saved = folder.games / "FRANCE.json"
    DiplomacyGame(1901, "FRANCE").save(saved)
    shown = io.StringIO()
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith(("WANDB_", "TRACKIO_"))]:
            environment.delenv(name)
        environment.setattr("services.metrics.trackers.client.FLUSH_S", 900.0)
        environment.setattr("cluster.driver.metrics_recorder.FLUSH_S", 900.0)  # a busy machine is slow to import

        def recorder(resume_after: int | None) -> MetricsRecorder:
            display = Display(4, enabled=False, console=Console(file=shown))
            return MetricsRecorder(CONFIG, folder, display, resume_after)

        with recorder(None) as first:
            first.evaluation("untrained", evaluation(0, 3), 1.0, [saved])
            for version in (1, 2, 3):
                first.swaps([0.1, 0.3])
                first.update(report(version, version / 10), 1, 0, {}, {})
        with recorder(2) as second:
            second.update(report(3, 0.35), 1, 0, {}, {})
            second.update(report(4, 0.4), 1, 0, {}, {})
            second.evaluation("trained", evaluation(4, 6), 1.0, [saved])
    assert not [line for line in shown.getvalue().splitlines() if any(f" {name}: " in line for name in NAMES)]
    for name in NAMES:
        assert "hush" not in (folder.trackers / name / "log.txt").read_text()
    yield folder
    shutil.rmtree(folder.path)


def test_tensorboard_shows_series_config_evaluations_and_replay(tracked: RunFolder) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    folder = tracked.trackers / "tensorboard"
    events = EventAccumulator(str(folder), dict.fromkeys(("scalars", "histograms", "tensors"), 0)).Reload()
    assert [(each.step, pytest.approx(each.value)) for each in events.Scalars(LOSS)] == [
        (1, 0.1), (2, 0.2), (3, 0.35), (4, 0.4),
    ]  # fmt: skip
    assert [each.value for each in events.Scalars(ITALY)] == [5, 6, 7, 8]
    assert [(each.step, each.value) for each in events.Scalars(CENTERS)] == [(0, 3), (4, 6)]
    assert events.Histograms(SWAPS)[-1].histogram_value.num == 2

    def text(tag: str) -> str:
        return str(make_ndarray(events.Tensors(f"{tag}/text_summary")[-1].tensor_proto)[0].decode())

    config = json.loads(text("config").removeprefix("```json\n").removesuffix("\n```"))
    assert config["run"]["seed"] == 41
    assert "url" not in config["redis"]
    rows = text("evaluations").splitlines()
    assert rows[0].startswith("| label | checkpoint | against ")
    assert len(rows) == 2 + 2 * (1 + len(POWERS))
    assert "| trained | checkpoints/4 | random | 1901 | ITALY | 2 | 6 |" in text("evaluations")
    kept = folder / text("replays/trained-random").removeprefix("- `").removesuffix("`")
    assert kept.read_bytes() == (tracked.games / "FRANCE.json").read_bytes()


def test_wandb_has_one_run_of_both_processes_in_its_offline_files(tracked: RunFolder) -> None:
    folders = sorted((tracked.trackers / "wandb" / "wandb").glob("offline-run-*"))
    assert len(folders) == 2
    files = [next(folder.glob("*.wandb")) for folder in folders]
    machine = re.compile(rb"\b" + re.escape(socket.gethostname().encode()) + rb"\b")
    assert not any(machine.search(file.read_bytes()) for file in files)
    records = [[*wandb_records(file)] for file in files]
    for of_process in records:
        (run,) = [record.run for record in of_process if record.WhichOneof("record_type") == "run"]
        assert (run.run_id, run.project, run.display_name) == (tracked.run_id, "entente", CONFIG.run.name)
        assert run.host == ""
        config = {item.key: json.loads(item.value_json) for item in run.config.update}
        assert config["run"]["seed"] == 41
        assert "url" not in config["redis"]
    history = [row for of_process in records for record in of_process if (row := history_of(record))]
    losses = [(row["update"], row[LOSS]) for row in history if LOSS in row]
    assert losses == [(1, 0.1), (2, 0.2), (3, 0.3), (3, 0.35), (4, 0.4)]
    assert [(row["update"], row[CENTERS]) for row in history if CENTERS in row] == [(0, 3), (4, 6)]
    assert any(row.get(f"{SWAPS}/_type") == "histogram" for row in history)
    table = folders[1] / "files" / [row["evaluations/path"] for row in history if "evaluations/path" in row][-1]
    document = json.loads(table.read_text())
    assert document["columns"][:2] == ["label", "checkpoint"]
    assert [row[0] for row in document["data"]] == ["untrained"] * 8 + ["trained"] * 8
    kept = [
        record.artifact
        for of_process in records
        for record in of_process
        if record.WhichOneof("record_type") == "artifact"
    ]
    replays = [artifact for artifact in kept if artifact.type == "replay"]
    assert [artifact.name for artifact in replays] == [
        f"{tracked.run_id}-untrained-random", f"{tracked.run_id}-trained-random",
    ]  # fmt: skip
    assert [[entry.path for entry in artifact.manifest.contents] for artifact in replays] == [["FRANCE.json"]] * 2
    # What `wandb sync` uploads later lies in the run folder too.
    for artifact in replays:
        (entry,) = artifact.manifest.contents
        assert Path(entry.local_path).is_relative_to(tracked.trackers / "wandb")
        assert Path(entry.local_path).read_bytes() == (tracked.games / "FRANCE.json").read_bytes()


def wandb_records(path: Path) -> Iterator[Any]:
    """The records of an offline file: LevelDB's log format behind a header of 7 bytes, with wandb's own messages."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, block = path.read_bytes(), 1 << 15
    assert data[:4] == b":W&B"
    position, parts = 7, b""
    while position + 7 <= len(data):
        if block - position % block < 7:
            position += block - position % block
            continue
        length, kind = int.from_bytes(data[position + 4 : position + 6], "little"), data[position + 6]
        parts += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            yield Record.FromString(parts)
            parts = b""


def history_of(record: Any) -> dict[str, Any]:
    if record.WhichOneof("record_type") != "history":
        return {}
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}


# trackio reads its folder from the environment when it is imported, so another process reads.
READ = """
import json
from trackio.sqlite_storage import SQLiteStorage
(run,) = SQLiteStorage.get_runs("entente")
logs = SQLiteStorage.get_logs("entente", run)
for log in logs:
    log["timestamp"] = str(log["timestamp"])
print(json.dumps([run, logs, SQLiteStorage.get_run_config("entente", run), SQLiteStorage.get_artifacts("entente")]))
"""


def test_trackio_has_one_run_in_its_database(tracked: RunFolder) -> None:
    environment = {**os.environ, "TRACKIO_DIR": str(tracked.trackers / "trackio")}
    done = subprocess.run(
        [sys.executable, "-c", READ], env=environment, capture_output=True, text=True, timeout=600, check=True
    )
    run, logs, config, artifacts = json.loads(done.stdout.splitlines()[-1])
    assert run == tracked.run_id
    assert (config["run"]["seed"], config["run_name"]) == (41, CONFIG.run.name)
    assert "url" not in config["redis"]
    losses = [(log["step"], log[LOSS]) for log in logs if LOSS in log]
    assert losses == [(1, 0.1), (2, 0.2), (3, 0.3), (3, 0.35), (4, 0.4)]
    assert [(log["step"], log[CENTERS]) for log in logs if CENTERS in log] == [(0, 3), (4, 6)]
    assert any(log.get(SWAPS, {}).get("_type") == "trackio.histogram" for log in logs)
    table = [log["evaluations"] for log in logs if "evaluations" in log][-1]
    assert [row["label"] for row in table["_value"]] == ["untrained"] * 8 + ["trained"] * 8
    assert {artifact["name"] for artifact in artifacts} == {
        f"{tracked.run_id}-untrained-random", f"{tracked.run_id}-trained-random",
    }  # fmt: skip
    assert {artifact["type"] for artifact in artifacts} == {"replay"}
