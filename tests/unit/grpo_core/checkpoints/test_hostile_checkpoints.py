"""A checkpoint from elsewhere: its manifest names files in its folder alone, and its states have their types."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from grpo_core.checkpoints.folders import checkpoint_versions, fingerprint, is_whole_checkpoint, latest_checkpoint
from grpo_core.checkpoints.store import load_checkpoint
from grpo_core.errors import CheckpointError
from tests.unit.grpo_core.checkpoints.test_store import learner_at, save


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = save(tmp_path_factory.mktemp("run"), learner_at(1))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(written: dict[str, bytes], tmp_path: Path) -> Path:
    path = tmp_path / "checkpoints" / "1"
    path.mkdir(parents=True)
    for name, content in written.items():
        (path / name).write_bytes(content)
    return path


def set_manifest(folder: Path, **fields: Any) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | fields))


def seal(folder: Path, name: str) -> None:
    """Record a changed file, as one who made it up would."""
    files = json.loads((folder / "manifest.json").read_text())["files"]
    set_manifest(folder, files=files | {name: fingerprint(folder / name)})


def refusal(folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(folder)
    assert len(str(caught.value)) <= 500
    assert str(caught.value).isprintable()
    return str(caught.value)


ENTRY = {"bytes": 4, "sha256": "0"}


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ([], "no table of files"),
        ("all", "no table of files"),
        ({"../../secret": ENTRY}, "no file in the folder"),
        ({"/etc/passwd": ENTRY}, "no file in the folder"),
        ({"a\0b": ENTRY}, "no name of a file"),
        ({"": ENTRY}, "no file in the folder"),
        ({"config.json": None}, "no size and SHA-256"),
        ({"config.json": {"bytes": True}}, "no size and SHA-256"),
        ({"config.json": {"bytes": "4"}}, "no size and SHA-256"),
        ({"x" * 300: ENTRY}, "File name too long"),
        ({"x" * 100_000: ENTRY}, "File name too long"),
    ],
)
def test_odd_entries_of_a_manifest_are_refused(folder: Path, files: Any, reason: str) -> None:
    whole = json.loads((folder / "manifest.json").read_text())["files"]
    set_manifest(folder, files=whole | files if isinstance(files, dict) else files)
    assert reason in refusal(folder)
    assert not is_whole_checkpoint(folder)
    assert latest_checkpoint(folder.parent.parent) is None


@pytest.mark.parametrize("version", [None, "1", -1, 1.5, True, 10**100])
def test_odd_versions_of_a_manifest_are_refused(folder: Path, version: Any) -> None:
    set_manifest(folder, version=version)
    assert "no number of updates" in refusal(folder)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"schema": ' + "1" * 10_000 + "}", '{"a": "\\ud800"}'])
def test_a_manifest_that_no_reader_can_hold_is_refused(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_text(text)
    assert "manifest.json cannot be read" in refusal(folder)
    assert checkpoint_versions(folder.parent.parent) == ()


@pytest.mark.parametrize("name", ["manifest.json", "trainer_state.json", "model.safetensors"])
def test_a_file_that_is_none_keeps_nothing_waiting(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert "a FIFO" in refusal(folder)
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    assert "a device" in refusal(folder)
    assert checkpoint_versions(folder.parent.parent) == ()


def test_a_checkpoint_may_have_files_longer_than_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (folder / "large").open("wb") as file:
        file.truncate(1 << 24)  # of holes
    seal(folder, "large")
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 1, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert latest_checkpoint(folder.parent.parent) == folder
    assert load_checkpoint(folder).version == 1
    os.truncate(folder / "large", (1 << 24) + 1)
    assert not is_whole_checkpoint(folder)
    assert "large is not what was written" in refusal(folder)


@pytest.mark.parametrize("record", ["[]", '{"learner": 1, "extra": {}}', '{"learner": {}, "extra": []}', "[" * 100_000])
def test_a_state_of_another_shape_is_refused(folder: Path, record: str) -> None:
    (folder / "trainer_state.json").write_text(record)
    seal(folder, "trainer_state.json")
    assert "cannot be read" in refusal(folder)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("version", "1"),
        ("version", -1),
        ("optimizer_steps", {"lm_head.weight": "x"}),
        ("optimizer_steps", {"no such parameter": 1.0}),
        ("generator", []),
        (
            "generator",
            {"bit_generator": "PCG64", "state": {"state": 1 << 400, "inc": 1}, "has_uint32": 0, "uinteger": 0},
        ),
        ("baselines", {"FRANCE": [1]}),
        ("baselines", {"FRANCE": ["a", "b"]}),
        ("advantages", {"clusters": {"FRANCE": ["a"]}, "progress": {}}),
        ("advantages", None),
    ],
)
def test_a_learner_refuses_a_state_of_other_types(folder: Path, part: str, value: Any) -> None:
    record = json.loads((folder / "trainer_state.json").read_text())
    record["learner"][part] = value
    (folder / "trainer_state.json").write_text(json.dumps(record))
    seal(folder, "trainer_state.json")
    state = load_checkpoint(folder).state
    with pytest.raises(CheckpointError, match="does not fit this model or is incomplete"):
        learner_at(0).load_state(state)


def test_odd_names_of_checkpoint_folders_are_no_versions(folder: Path) -> None:
    for name in ("9" * 30, "²", "-1", " 3", "1e3"):
        folder.rename(folder.parent / name)
        assert checkpoint_versions(folder.parent.parent) == ()
        (folder.parent / name).rename(folder)
