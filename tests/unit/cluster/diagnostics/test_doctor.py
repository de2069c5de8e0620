"""``entente doctor``'s checks of paths and access."""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.diagnostics import doctor
from cluster.diagnostics import paths as doctor_places
from cluster.diagnostics.finding import Finding
from cluster.diagnostics.paths import disk, metrics_port, policy_files, run_folder
from cluster.diagnostics.security import _openness, ray_access
from cluster.driver.training import check_machine
from cluster.errors import RunError
from cluster.runs.folder import RunFolder
from cluster.runs.ray_job import JOB_VARIABLE
from grpo_core.errors import EntenteError
from grpo_core.models.pretrained import make_small_model, save_model
from grpo_core.settings import PolicySettings
from services.inference.word_tokenizer import make_word_tokenizer

LOCAL = Config()
CLUSTER = load_config("smoke", ["run.ray_address=auto"])


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment without any settings."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS", JOB_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def only(findings: Iterator[Finding]) -> Finding:
    [finding] = findings
    return finding


def access(config: Config) -> Finding:
    return next(ray_access(config.run))


def token_file(path: Path, text: str = "a token\n", mode: int = 0o600) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("version", "mark"), [((3, 10, 14), "fault"), ((3, 11, 0), "ok"), ((3, 13, 9), "ok"), ((3, 14, 0), "fault")]
)
def test_python_versions(version: tuple[int, int, int], mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.sys, "version_info", version)
    assert only(doctor._python()).level == mark


def test_a_runs_own_ray_creates_its_token_and_a_cluster_needs_the_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert access(LOCAL).level == "ok"
    assert "is made at ~/.ray/auth_token" in access(LOCAL).text
    assert access(CLUSTER).level == "warn"
    assert "have the head's token in RAY_AUTH_TOKEN, a file that RAY_AUTH_TOKEN_PATH names" in access(CLUSTER).text
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert access(CLUSTER).level == "fault"
    assert access(LOCAL).level == "ok"
    monkeypatch.setenv(JOB_VARIABLE, "{}")  # a job's driver is on a cluster whatever its config says
    assert access(LOCAL).level == "fault"


@pytest.mark.parametrize("mode", ["TOKEN", None])
def test_every_source_of_a_token_is_found(home: Path, monkeypatch: pytest.MonkeyPatch, mode: str | None) -> None:
    if mode is not None:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    for config in (LOCAL, CLUSTER):
        token_file(home / ".ray" / "auth_token")
        assert access(config) == Finding(
            "ok", "ray authentication", f"Ray asks for the token in {home}/.ray/auth_token"
        )
        (home / ".ray" / "auth_token").unlink()
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token_file(home / "elsewhere")))
        assert access(config).text.endswith(f"the token in {home}/elsewhere")
        monkeypatch.setenv("RAY_AUTH_TOKEN", "a token")
        assert access(config).text.endswith("the token in RAY_AUTH_TOKEN")
        monkeypatch.setenv("RAY_AUTH_TOKEN", " ")  # Ray takes it for none
        monkeypatch.delenv("RAY_AUTH_TOKEN_PATH")
        assert "have the head's" in access(CLUSTER).text


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_a_named_file_without_a_token_is_a_fault(home: Path, monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    token_file(home / ".ray" / "auth_token")  # which Ray does not look at then
    if text is not None:
        token_file(home / "empty", text)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(home / "empty"))
    assert access(LOCAL).level == "fault"
    assert "cannot be read or is empty" in access(LOCAL).text


def test_a_readable_token_and_ray_without_authentication_are_warnings(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = token_file(home / ".ray" / "auth_token", mode=0o644)  # as Ray makes it
    home.chmod(0o700)
    assert access(LOCAL).level == "ok"
    home.chmod(0o755)
    assert access(LOCAL) == Finding(
        "warn", "ray authentication", f"others of this machine may read the token in {path}: chmod 600 {path}"
    )
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert "RAY_AUTH_MODE is not token: any client that reaches Ray's ports runs programs as you" in access(LOCAL).text
    monkeypatch.setenv("RAY_AUTH_MODE", "tokn")
    assert "which Ray takes for disabled ('tokn')" in access(LOCAL).text
    assert access(LOCAL).level == "warn"


def test_unreachable_cluster_and_unused_address_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unreachable(address: str) -> None:
        raise RunError(f"no Ray cluster at {address}")

    monkeypatch.setattr("cluster.diagnostics.security.check_reachable", unreachable)
    assert [finding.level for finding in ray_access(CLUSTER.run)] == ["warn", "fault"]
    monkeypatch.setattr("cluster.diagnostics.security.check_reachable", lambda address: None)
    assert [finding.level for finding in ray_access(CLUSTER.run)] == ["warn", "ok"]
    monkeypatch.setenv("RAY_ADDRESS", "elsewhere:6379")
    assert "a run starts its own Ray" in list(ray_access(LOCAL.run))[-1].text
    assert len(list(ray_access(CLUSTER.run))) == 2


@pytest.mark.parametrize(
    ("url", "level", "text"),
    [
        ("redis://:word@h:1/0", "ok", "not encrypted; rediss:// is"),
        ("rediss://me:word@h:1/0", "ok", "(encrypted)"),
        ("rediss://h:1/0?ssl_certfile=/c&ssl_keyfile=/k", "ok", "(encrypted)"),
        ("rediss://h:1/0", "warn", "accepts every client that reaches it (encrypted): give it a password"),
        ("redis://me@h:1/0", "warn", "ENTENTE_REDIS_PASSWORD"),
    ],
)
def test_replay_server_without_password_is_a_warning(url: str, level: str, text: str) -> None:
    finding = _openness(url)
    assert (finding.level, finding.subject) == (level, "redis")
    assert text in finding.text
    assert "word@" not in finding.text


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("game.gsm8k=nowhere.jsonl", "nowhere.jsonl: cannot be read"),
        ("evaluation.gsm8k=nowhere.jsonl", "nowhere.jsonl: cannot be read"),
        (
            "game.reward={'no_such_module:reward' = 1.0}",
            "no_such_module:reward' cannot be imported: ModuleNotFoundError",
        ),
    ],
)
def test_files_and_functions_that_a_world_needs_are_looked_up_before_a_run(override: str, reason: str) -> None:
    config = load_config({"task": {"name": "word_problems"}}, ["policy.path=somewhere", override])
    finding = only(doctor._world_files(config))
    assert finding.level == "fault"
    assert finding.subject == "word_problems"
    assert reason in finding.text
    with pytest.raises(EntenteError, match=re.escape(reason)):
        check_machine(config)
    elsewhere = config.model_copy(update={"run": config.run.model_copy(update={"ray_address": "auto"})})
    assert not list(doctor._world_files(elsewhere))


def test_an_unwritable_or_used_run_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert only(run_folder(LOCAL.run, tmp_path / "a" / "b")).level == "ok"
    blocked = only(run_folder(LOCAL.run, tmp_path / "file" / "run"))
    assert (blocked.level, blocked.text) == (
        "fault", f"{tmp_path}/file/run cannot be written ({tmp_path}/file is no folder of yours): choose another",
    )  # fmt: skip
    folder = RunFolder(tmp_path / "run")
    folder.open(LOCAL, resume=False)
    (folder.checkpoints / "0").mkdir()
    (folder.checkpoints / "0" / "manifest.json").write_text("{}")
    assert "--resume continues it" in only(run_folder(LOCAL.run, folder.path)).text
    with folder.held():
        assert "another process is training in" in only(run_folder(LOCAL.run, folder.path)).text
    (folder.path / "format").write_text("1\n")
    older = only(run_folder(LOCAL.run, folder.path))
    assert older.level == "fault"
    assert "has format 1" in older.text
    assert only(run_folder(LOCAL.run, None)).text == "runs/run can be written"
    assert only(disk(tmp_path / "a" / "b")).subject == "disk"


def policy_of(config: Config) -> Finding:
    return only(policy_files(config.policy, config.run))


def test_paths_on_a_cluster_are_absolute(tmp_path: Path) -> None:
    assert only(run_folder(CLUSTER.run, None)).level == "warn"
    relative = only(run_folder(CLUSTER.run, Path("runs/x")))
    assert (relative.level, "--run-dir an absolute folder that all share" in relative.text) == ("fault", True)
    assert only(run_folder(CLUSTER.run, tmp_path / "run")).level == "ok"
    assert policy_of(on_cluster("models/policy")).level == "fault"
    unseen = policy_of(on_cluster("/nowhere/policy"))
    assert (unseen.level, unseen.text) == (
        "warn", "/nowhere/policy is not seen from here; every node of the cluster needs it there",
    )  # fmt: skip


def on_cluster(path: str) -> Config:
    return load_config("smoke", ["run.ray_address=auto", f"policy.path={path}"])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "policy"
    settings = PolicySettings(hidden_size=64, layers=1, intermediate_size=96, context_length=128)
    model = make_small_model(settings, 44, eos_id=2, bos_id=1, pad_id=0, seed=0)
    save_model(model, make_word_tokenizer([f"w{number}" for number in range(40)], r"\S+"), folder)
    return folder


def policy(folder: Path) -> Finding:
    return policy_of(load_config("smoke", [f"policy.path={folder}"]))


def test_missing_damaged_and_pickled_policy_files_are_reported(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "small, about" in policy_of(LOCAL).text
    assert policy(tmp_path / "absent").text == f"{tmp_path}/absent is not a folder: give one in Hugging Face layout"
    fine = policy(saved)
    assert (fine.level, fine.text) == ("ok", "0.0 M parameters in 1 safetensors file(s)")
    (saved / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n(S'false'\ntR.")
    assert policy(saved).text.endswith("; pytorch_model.bin beside them: never read")
    monkeypatch.setattr(doctor_places, "LOADED_BYTES", 1)
    assert "whose headers were read (0.0 GiB: not loaded)" in policy(saved).text
    whole = (saved / "model.safetensors").read_bytes()
    (saved / "model.safetensors").write_bytes(whole[:1000])
    assert "is damaged or truncated" in policy(saved).text
    (saved / "model.safetensors").unlink()
    assert "is pickled and never read: convert it to safetensors" in policy(saved).text
    monkeypatch.undo()
    save_file({"foreign": torch.zeros(3)}, saved / "model.safetensors")
    assert policy(saved).level == "fault"  # its header is fine, and it is not this model's
    assert "weights do not fit config.json" in policy(saved).text
    assert json.loads((saved / "config.json").read_text())


def test_a_taken_metrics_port_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def at(port: int, host: str = "127.0.0.1") -> Finding:
        return only(metrics_port(load_config("smoke", [f"metrics.port={port}", f"metrics.host={host}"]).metrics))

    assert list(metrics_port(LOCAL.metrics)) == []
    assert at(0) == Finding("ok", "metrics port", "any free one on 127.0.0.1 is free, for this machine alone")
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        finding = at(taken.getsockname()[1])
    assert finding.level == "fault"
    assert finding.text.endswith("set metrics.port to 0 for a free one")
    assert at(0, "192.0.2.1").text.endswith("set metrics.host to an address of this machine")
    assert at(0, "0.0.0.0").level == "warn"
    assert "reads the run's figures, and changes nothing" in at(0, "0.0.0.0").text


def bfloat16_of(config: Config) -> Iterator[Finding]:
    return doctor._bfloat16(config.learner, config.run)


@pytest.mark.parametrize(("ratio", "level"), [(24.0, "warn"), (1.1, "ok"), (0.06, "ok")])
def test_bfloat16_on_a_cpu_without_its_instructions_is_a_warning(
    ratio: float, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "bfloat16_time", lambda: ratio)
    finding = only(bfloat16_of(load_config("smoke", ["learner.bf16=true"])))
    assert finding.level == level
    assert ("24 times slower" in finding.text and "learner.bf16 = false" in finding.text) == (level == "warn")


@pytest.mark.parametrize(
    "overrides",
    [[], ["learner.bf16=true", "learner.gpus=1"], ["learner.bf16=true", "run.ray_address=auto"]],
    ids=["float32", "gpu", "cluster"],
)
def test_bfloat16_is_not_measured_where_no_cpu_here_computes_in_it(overrides: list[str]) -> None:
    assert list(bfloat16_of(load_config("smoke", overrides))) == []


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the instruction sets are x86's")
def test_bfloat16_is_measured_to_be_slow_without_avx512() -> None:
    variables = {"ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "1"}
    code = "from cluster.diagnostics.doctor import SLOW_BFLOAT16, bfloat16_time; assert bfloat16_time() > SLOW_BFLOAT16"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **variables}, check=True, timeout=300)
