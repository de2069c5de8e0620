"""Only an exported policy that is whole, small and licensed takes the place of the shipped champion."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cluster.errors import ConfigError, RunError
from cluster.export.champion import main, release
from grpo_core.errors import CheckpointError, EntenteError
from opponents.champion.shipped import MANIFEST, ROOM, WEIGHTS, shipped_champion


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOM / WEIGHTS, tmp_path / "exported"))


@pytest.fixture
def room(tmp_path: Path) -> Path:
    (tmp_path / "room").mkdir()
    return tmp_path / "room"


def test_a_release_takes_the_place_of_the_last_one(exported: Path, room: Path) -> None:
    release(exported, room)
    made = json.loads((exported / "entente.json").read_text())
    (exported / "entente.json").write_text(json.dumps({**made, "version": made["version"] + 5}))
    (exported / "generation_config.json").unlink()
    champion = release(exported, room)
    assert champion == shipped_champion(room)
    assert champion.version == made["version"] + 5
    assert {path.name for path in room.iterdir()} == {WEIGHTS, MANIFEST}
    assert not (room / WEIGHTS / "generation_config.json").exists()


def test_the_shipped_folder_is_one_that_a_release_makes(room: Path) -> None:
    release(ROOM / WEIGHTS, room)
    assert (room / MANIFEST).read_bytes() == (ROOM / MANIFEST).read_bytes()


def replaced(name: str, old: str, new: str):
    def change(exported: Path) -> None:
        text = (exported / name).read_text()
        assert old in text
        (exported / name).write_text(text.replace(old, new))

    return change


def grow(exported: Path) -> None:
    (exported / "README.md").write_text((exported / "README.md").read_text() + "x" * 8_000_000)


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda folder: (folder / "README.md").unlink(), RunError, "has no model card"),
        (
            replaced("README.md", "license: ", "licence-of: "),
            RunError,
            "names no licence; export the policy again with",
        ),
        (replaced("README.md", "---\n", ""), RunError, "names no licence"),
        (grow, RunError, "MB, and the champion may have 8 MB"),
        (
            lambda folder: (folder / "pytorch_model.bin").write_bytes(b"\x80"),
            RunError,
            "pytorch_model.bin: the champion",
        ),
        (lambda folder: (folder / "notes.txt").write_text("x"), RunError, "notes.txt: the champion's folder holds"),
        (lambda folder: (folder / "adapter").mkdir(), RunError, "adapter: the champion's folder holds"),
        (lambda folder: (folder / "sub.json").mkdir(), RunError, "sub.json cannot be shipped: it is a folder"),
        (lambda folder: (folder / "entente.json").unlink(), RunError, "is no exported policy"),
        (replaced("entente.json", '"country": null', '"country": "FRANCE"'), RunError, "plays all powers"),
        (replaced("entente.json", '"decoding": "constrained"', '"decoding": "odd"'), ConfigError, "decoding"),
        (lambda folder: (folder / "tokenizer.json").unlink(), CheckpointError, "tokenizer"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"short"), CheckpointError, "damaged or truncated"),
    ],
)
def test_what_does_not_fit_is_refused_and_the_last_release_stays(
    exported: Path, room: Path, spoil, error: type[EntenteError], message: str
) -> None:
    before = release(exported, room)
    spoil(exported)
    with pytest.raises(error, match=message) as found:
        release(exported, room)
    assert "\n" not in str(found.value)
    assert shipped_champion(room) == before


def test_the_command_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([]) == 2
    assert "usage: python -m cluster.export.champion FOLDER" in capsys.readouterr().err
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "nowhere is no folder" in capsys.readouterr().err
