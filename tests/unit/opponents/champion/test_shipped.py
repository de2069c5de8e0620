"""The shipped champion is opened whole or not at all, and its name is never a folder's."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from opponents.champion.shipped import (
    CHAMPION,
    LARGEST_BYTES,
    MANIFEST,
    ROOM,
    WEIGHTS,
    ChampionError,
    manifest_of,
    name_of_path,
    player_folder,
    shipped_champion,
    shown_path,
    starting_folder,
)


@pytest.fixture
def room(tmp_path: Path) -> Path:
    shutil.copytree(ROOM / WEIGHTS, tmp_path / WEIGHTS)
    shutil.copy(ROOM / MANIFEST, tmp_path / MANIFEST)
    return tmp_path


def refused(room: Path) -> str:
    with pytest.raises(ChampionError) as error:
        shipped_champion(room)
    assert "\n" not in str(error.value)
    found = re.fullmatch(r"the champion's weights are not whole: (.*); reinstall the package", str(error.value))
    assert found is not None, error.value
    return found[1]


def test_the_manifest_lists_the_shipped_files_and_they_are_small() -> None:
    champion = shipped_champion()
    written = json.loads((ROOM / MANIFEST).read_text())
    assert written == manifest_of(champion.folder, champion.version)
    assert sum(entry["bytes"] for entry in written["files"].values()) <= LARGEST_BYTES == 8_000_000
    assert {"README.md", "config.json", "entente.json", "model.safetensors", "tokenizer.json"} <= written[
        "files"
    ].keys()
    assert champion.checksum == written["files"]["model.safetensors"]["sha256"]
    assert champion.version == json.loads((champion.folder / "entente.json").read_text())["version"]


def test_no_path_of_a_machine_is_shipped() -> None:
    for path in (ROOM / WEIGHTS).glob("*.[jmt]*"):
        if path.suffix != ".safetensors":
            assert not re.search(r"(?<![\w/.])/(tmp|home|work|root|Users|mnt)/", path.read_text()), path


@pytest.mark.parametrize("name", ["model.safetensors", "entente.json", "tokenizer.json"])
def test_a_flipped_bit_is_refused(room: Path, name: str) -> None:
    path = room / WEIGHTS / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert refused(room) == f"weights/{name}"


def test_a_missing_or_an_added_file_is_refused(room: Path) -> None:
    (room / WEIGHTS / "generation_config.json").unlink()
    assert refused(room) == "weights/generation_config.json"
    shutil.copy(ROOM / WEIGHTS / "generation_config.json", room / WEIGHTS)
    assert shipped_champion(room).folder == room / WEIGHTS
    (room / WEIGHTS / "adapter").mkdir()
    assert refused(room) == "weights/adapter"


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"schema": 2, "version": 1, "files": {"a": {}}}', '{"schema": 1, "version": 1, "files": {}}'],
)
def test_a_damaged_manifest_is_refused(room: Path, text: str) -> None:
    (room / MANIFEST).write_text(text)
    assert refused(room) == MANIFEST


def test_a_manifest_cannot_name_files_elsewhere(room: Path) -> None:
    document = json.loads((room / MANIFEST).read_text())
    document["files"]["../manifest.json"] = {"bytes": 1, "sha256": "0"}
    (room / MANIFEST).write_text(json.dumps(document))
    assert refused(room) == "weights/../manifest.json"


def test_a_missing_room_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path) == MANIFEST
    shutil.copy(ROOM / MANIFEST, tmp_path)
    assert refused(tmp_path) == "weights/README.md"


def test_a_local_folder_of_that_name_does_not_shadow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / CHAMPION).mkdir()
    for resolve in (player_folder, starting_folder):
        assert resolve(CHAMPION) == ROOM / WEIGHTS
        assert resolve(f"./{CHAMPION}").resolve() == tmp_path / CHAMPION
        assert resolve("/models/demo") == Path("/models/demo")


def test_a_path_object_is_a_folder_and_is_shown_as_one() -> None:
    assert name_of_path(CHAMPION) == CHAMPION
    assert name_of_path(Path(CHAMPION)) == f"./{CHAMPION}"
    assert name_of_path(Path("runs/demo")) == "runs/demo"
    assert shown_path(CHAMPION) == CHAMPION
    assert shown_path("/models/champion") == shown_path("./champion") == "./champion"
    assert shown_path("/models/demo") == "demo"
    assert shown_path("Qwen/Qwen3-0.6B") == "Qwen/Qwen3-0.6B"
