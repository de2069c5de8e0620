"""The run folder: one process at a time, consistent settings on resume, no readable password."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cluster.cli.pages import report
from cluster.cli.population.population import list_members
from cluster.configs.loader import dump_config, load_config
from cluster.configs.schema import Config
from cluster.diagnostics.groups_audit import read_records
from cluster.diagnostics.run_health import examine_run
from cluster.errors import ConfigError, RunError
from cluster.runs.folder import FORMAT, LOCK_PAUSE_S, RunFolder, check_writable, config_of, sampling_of
from cluster.runtime.replay.addresses import with_password
from opponents.population.population import Population
from services.reports.run_report.run_report import write_report
from tests.measured import DIPLOMACY

CONFIG = load_config("smoke")


def begun(path: Path) -> RunFolder:
    """A run with a fake complete checkpoint."""
    folder = RunFolder(path)
    with folder.held():
        folder.open(CONFIG, resume=False)
    (folder.checkpoints / "0").mkdir()
    (folder.checkpoints / "0" / "manifest.json").write_text("{}")
    return folder


def test_a_run_cannot_be_started_twice_or_resumed_without_a_folder(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    with pytest.raises(RunError, match=r"already holds a run; go on with --resume, or choose another --run-dir"):
        folder.open(CONFIG, resume=False)
    with pytest.raises(RunError, match="no run to resume"):
        RunFolder(tmp_path / "other").resumed_config(())
    assert folder.resumed_config(()) == CONFIG


@pytest.mark.parametrize("written", [None, "1", str(FORMAT + 1)])
def test_run_of_another_format_is_refused_with_both_formats_in_one_line(tmp_path: Path, written: str | None) -> None:
    folder = begun(tmp_path / "run")
    (folder.path / "format").unlink()
    if written is not None:
        (folder.path / "format").write_text(f"{written}\n")
    refused = rf"has format {written or 1}, and this version .* format {FORMAT}"
    for use in (
        folder.stored_config,
        lambda: folder.resumed_config(()),
        lambda: folder.check_resumable(CONFIG),
        lambda: folder.open(CONFIG, resume=True),
    ):
        with pytest.raises(RunError, match=refused) as error:
            use()
        assert "\n" not in str(error.value)


def test_report_of_a_run_of_another_format_is_refused(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    (folder.path / "format").unlink()
    with pytest.raises(RunError, match="has format 1"):
        report(folder.path)


def test_new_run_records_its_format(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    assert (folder.path / "format").read_text() == f"{FORMAT}\n"
    folder.open(CONFIG, resume=True)


@pytest.mark.parametrize("inner", ["", "checkpoints/0", "imitated", "imitated/untrained"])
def test_config_of_a_folder_in_a_run_is_the_runs_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: str
) -> None:
    begun(tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    assert config_of(Path(inner)) == config_of(tmp_path / "run" / inner) == CONFIG
    assert sampling_of(Path(inner)).inference == CONFIG.inference
    assert config_of(tmp_path / "elsewhere") == Config()


def test_a_config_file_next_to_model_folders_does_not_make_them_runs(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[inference]\ntemperature = 0.1\n[tool]\nanother = 1\n")
    (tmp_path / "models" / "dumbbot").mkdir(parents=True)
    assert config_of(tmp_path / "models" / "dumbbot") == sampling_of(tmp_path / "models" / "dumbbot") == Config()


def test_the_sampling_of_a_run_of_an_older_format_is_read_and_other_uses_are_refused(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    folder.config.write_text(
        dump_config(load_config("smoke", ["inference.temperature=0.5"])).replace("curriculum_up", "difficulty_up")
    )
    (folder.path / "format").unlink()
    assert sampling_of(folder.checkpoints / "0").inference.temperature == 0.5
    Population(folder.population).save()
    for use in (
        lambda: config_of(folder.checkpoints / "0"),
        lambda: examine_run(folder.path),
        lambda: read_records(folder.path),
        lambda: list_members(folder.path),
    ):
        with pytest.raises(RunError, match="has format 1"):
            use()


def test_damaged_sampling_settings_are_refused_in_one_line(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    folder.config.write_text("[inference]\nheat = 1\n")
    with pytest.raises(ConfigError, match=r"config\.toml: inference\.heat: there is no such key") as error:
        sampling_of(folder.path)
    assert "\n" not in str(error.value)


def test_checking_whether_a_run_is_in_use_does_not_lock_it(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    with (tmp_path / ".lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # as ``in_use`` does, if it were slow
        looked = threading.Timer(LOCK_PAUSE_S, fcntl.flock, (file, fcntl.LOCK_UN))
        looked.start()
        with folder.held():
            assert folder.in_use()
        looked.join()


def test_a_start_that_failed_before_its_first_checkpoint_can_be_started_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.open(CONFIG, resume=False)
    first = folder.run_id
    folder.metrics.write_text("left over")
    folder.open(load_config("smoke", ["run.seed=9"]), resume=False)
    assert folder.run_id != first
    assert not folder.metrics.exists()
    assert folder.resumed_config(()).run.seed == 9


def test_opening_a_run_removes_files_that_a_killed_process_left_half_written(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    script = (
        "import os, signal, sys; from pathlib import Path; from grpo_core.checkpoints import atomic_write; "
        "atomic_write.os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL); "
        "atomic_write.write_atomically(Path(sys.argv[1]), bytes(100))"
    )
    for file in (folder.path / "ratings.json", folder.audit / "last_batch.bin"):
        subprocess.run([sys.executable, "-c", script, str(file)], check=False, timeout=60)
    old, fresh = (next(place.glob(".*.draft")) for place in (folder.audit, folder.path))
    os.utime(old, (0, 0))
    folder.open(CONFIG, resume=True)
    assert not old.exists()
    assert fresh.exists()  # another process may be writing it


def test_a_run_folder_is_used_by_one_process_at_a_time(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with folder.held(), pytest.raises(RunError, match="another process"), RunFolder(tmp_path / "run").held():
        pass
    with folder.held():
        pass


@pytest.mark.parametrize(
    "override",
    ["run.seed=5", "rollout.num_generations=7", "learner.episodes_per_update=28", "policy.layers=3"],
)
def test_settings_that_the_stored_run_depends_on_cannot_change(tmp_path: Path, override: str) -> None:
    folder = begun(tmp_path / "run")
    before = folder.config.read_text()
    with pytest.raises(RunError, match="cannot change when a run is resumed"):
        folder.resumed_config([override])
    assert folder.config.read_text() == before
    assert folder.resumed_config(["learner.updates=40"]).learner.updates == 40


def test_an_external_replay_server_can_move_but_not_become_embedded_or_the_reverse(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot be set or unset when a run is resumed: its episodes are in .*redis"):
        begun(tmp_path / "own").resumed_config(["redis.url=redis://elsewhere:1/0"])
    folder = RunFolder(tmp_path / "other")
    folder.open(load_config("smoke", ["redis.url=redis://here:1/0"]), resume=False)
    moved = "rediss://there:2/0?ssl_ca_certs=/ca.pem"
    assert folder.resumed_config([f"redis.url={moved}"]).redis.url == moved
    with pytest.raises(RunError, match=r"its episodes are on the server that redis\.url named"):
        folder.check_resumable(load_config("smoke"))


def test_the_number_of_replay_servers_stays_the_same(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"its episodes are on 1, and the configuration names 2"):
        begun(tmp_path / "own").resumed_config(["redis.servers=2"])
    folder = RunFolder(tmp_path / "other")
    folder.open(load_config("smoke", ['redis.urls=["redis://a:1", "redis://b:1"]']), resume=False)
    moved = folder.resumed_config(['redis.urls=["redis://a:1", "redis://c:1"]'])
    assert moved.redis.external == ("redis://a:1", "redis://c:1")
    with pytest.raises(RunError, match=r"its episodes are on 2, and the configuration names 1"):
        folder.resumed_config(['redis.urls=["redis://a:1"]'])
    with pytest.raises(RunError, match=r"its episodes are on the servers that redis\.urls named"):
        folder.check_resumable(load_config("smoke", ["redis.servers=2"]))


def test_a_password_is_not_readable_by_others_and_not_in_the_report(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    url = "rediss://me:SECRET@db.example:6379/0?ssl_keyfile=/k&ssl_password=SECRET&password=SECRET"
    folder.open(load_config("smoke", [f"redis.url={url}"]), resume=False)
    assert stat.S_IMODE(folder.config.stat().st_mode) == 0o600
    folder.write_summary({"run": "x", "commit": "c", "updates": 0, "evaluations": []})
    page = write_report(folder.path, DIPLOMACY).read_text()
    assert "db.example" in page
    assert "SECRET" not in page


def test_a_password_from_the_environment_goes_into_the_url() -> None:
    assert with_password("redis://db:6379/0", "p@ss") == "redis://:p%40ss@db:6379/0"
    assert with_password("redis://me@db:6379/0", "word") == "redis://me:word@db:6379/0"
    assert with_password("redis://me:own@db:6379/0", "word") == "redis://me:own@db:6379/0"
    assert with_password("redis://db:6379/0", None) == "redis://db:6379/0"


def test_unwritable_result_files_are_refused_before_the_work(tmp_path: Path) -> None:
    check_writable(tmp_path / "fine.json")
    with pytest.raises(RunError, match="it is a folder"):
        check_writable(tmp_path)
    with pytest.raises(RunError, match="there is no folder"):
        check_writable(tmp_path / "none" / "x.json")


def test_records_are_strict_json_whatever_was_measured(tmp_path: Path) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    folder = RunFolder(tmp_path)
    measured = {"nats": [1.5, float("nan"), float("-inf")], "name": "\u2028</script>"}
    folder.write_summary(measured)
    folder.write_audit(3, measured)
    expected = {**measured, "nats": [1.5, None, None]}
    for path in (folder.summary, folder.audit / "000003.json"):
        assert json.loads(path.read_text(), parse_constant=refuse) == expected
