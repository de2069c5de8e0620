"""Files that are no documents are refused before anything waits for them or reads them for ever."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from grpo_core.files import check_regular, file_name, parse_json, path_inside, read_bytes, read_json


def test_a_regular_file_is_read_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"name": "\\ud83d\\ude00"}')
    (tmp_path / "link").symlink_to("a.json")
    assert read_json(tmp_path / "link") == {"name": "\U0001f600"}
    assert check_regular(tmp_path / "link") == 24


def test_what_is_no_regular_file_is_refused_with_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's address is short
    os.mkfifo("fifo")
    Path("folder").mkdir()
    Path("zero").symlink_to("/dev/zero")
    Path("loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    reasons = {"fifo": "a FIFO", "folder": "a folder", "zero": "a device", "socket": "a socket", "loop": "Too many"}
    reasons |= {"none": "No such file", "nul\0": "no file can have this name", "\udcff\ud800": "no file can have this"}
    for name, reason in reasons.items():
        with pytest.raises(OSError, match=reason) as caught:
            read_bytes(Path(name))
        assert reason in caught.value.strerror


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    long = tmp_path / "long"
    with long.open("wb") as file:
        file.truncate(1 << 40)  # of holes
    with pytest.raises(OSError, match=r"1,048,576 MiB, and at most 64 MiB are read"):
        read_bytes(long)
    os.truncate(long, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") + 1)
    with pytest.raises(OSError, match="MiB are read, the memory of this machine"):
        read_bytes(long, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "Expecting"),
        (b"\xff", "utf-8"),
        (b"[" * 100_000, "too deeply"),
        (b"1" * 10_000, "thousands of digits"),
        (b'["\\ud800"]', "surrogate"),
        (b'{"\\uDfff": 1}', "surrogate"),
    ],
)
def test_what_is_no_document_is_a_value_error(text: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_json(text)


@pytest.mark.parametrize("name", ["/etc/passwd", "../a", "a/../../b", "", ".", "a\0", "a\n", "\ud800", None, 3, ["a"]])
def test_a_name_that_leaves_its_folder_is_refused(name: object) -> None:
    with pytest.raises(ValueError, match=r"no file in the folder|no name of a file"):
        path_inside(Path("run"), name)


def test_a_name_below_a_folder_is_kept() -> None:
    assert path_inside(Path("run"), "a/b..c.json") == Path("run/a/b..c.json")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("trained-dumbbot", "trained-dumbbot"), ("policy:champion", "policy-champion"), ("../a b", "..-a-b")],
)
def test_any_text_becomes_a_name_of_a_file(text: str, expected: str) -> None:
    assert file_name(text) == expected
