"""Models by their name on the Hub: fetched through the real client, then taken from its cache without a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chat_models import save_chat_model
from tests.system.support.hub_server import COMMIT, hub

pytestmark = pytest.mark.system

# In a process of its own: huggingface_hub reads its variables when it is imported.
SCRIPT = """
import sys
from grpo_core.errors import CheckpointError
from grpo_core.models.hub import model_folder
for name in sys.argv[1:]:
    try:
        print(model_folder(name))
    except CheckpointError as error:
        print(f"error: {error}")
"""


def resolve(url: str, home: Path, *names: str) -> list[str]:
    environment = {"HF_ENDPOINT": url, "HF_HOME": str(home), "PATH": "/usr/bin:/bin", "HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *names],
        env=environment, capture_output=True, text=True, timeout=300, check=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = save_chat_model(tmp_path_factory.mktemp("hub") / "model")
    (folder / "pytorch_model.bin").write_bytes(b"pickled")
    return folder


def test_a_model_is_fetched_once_and_then_needs_no_network(model: Path, tmp_path: Path) -> None:
    with hub({"org/tiny": model}) as server:
        (folder,) = resolve(server.url, tmp_path, "org/tiny")
        assert Path(folder).name == COMMIT
        assert sorted(server.fetched) == sorted(path.name for path in model.iterdir() if path.suffix != ".bin")
        fetched = len(server.fetched)
        assert resolve(server.url, tmp_path, "org/tiny", f"org/tiny@{COMMIT}") == [folder, folder]
        assert len(server.fetched) == fetched
        url = server.url
    assert resolve(url, tmp_path, "org/tiny") == [folder]
    (missing,) = resolve(url, tmp_path, "org/other")
    assert "the Hub cannot be reached" in missing
    assert "hf download org/other" in missing


def test_a_model_of_which_others_fetched_a_part_is_completed(model: Path, tmp_path: Path) -> None:
    with hub({"org/tiny": model}) as server:
        (folder,) = resolve(server.url, tmp_path, "org/tiny")
        (Path(folder) / "model.safetensors").unlink()
        assert resolve(server.url, tmp_path, "org/tiny") == [folder]
        assert (Path(folder) / "model.safetensors").is_file()


def test_names_that_the_hub_does_not_allow_are_one_line(tmp_path: Path) -> None:
    for name in ("models/run--3", "foo/bar..baz", "foo/bar.git"):
        (line,) = resolve("http://127.0.0.1:9", tmp_path, name)
        assert line.startswith(f"error: there is no folder {name}, and ")


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("org/none", 404, "the Hub has no model of that name"),
        ("org/gated", 403, "accept it on the model's page"),
        ("org/broken", 500, "cannot be"),
        ("org/tiny@lost", 404, "no revision lost"),
    ],
)
def test_what_cannot_be_fetched_is_one_line(model: Path, tmp_path: Path, name: str, status: int, reason: str) -> None:
    with hub({"org/tiny": model}, status) as server:
        (line,) = resolve(server.url, tmp_path, name)
    assert line.startswith(f"error: there is no folder {name}, and ")
    assert reason in line
    assert len(line) < 500


def test_paths_are_taken_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    names = [str(tmp_path / "there"), str(tmp_path / "not" / "there"), "../up/one", "one"]
    assert resolve("http://127.0.0.1:9", tmp_path, *names) == names
