"""Text from outside as one printable line."""

from __future__ import annotations

import pickle
import random

import pytest

from cluster.cli.app import stop
from grpo_core.errors import CheckpointError, one_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain text", "plain text"),
        ("  two\r\nlines\tand\u2028more\x85 ", "two lines and more"),
        ("\x1b[31mred\x1b[0m and \x9b1;2Hmoved", "red and moved"),
        ("\x1b]0;a title\x07after\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "afterlink"),
        ("\x1bP1$r\x1b\\a\x1bcb\x1b(Bc", "abc"),
        ("unfinished \x1b[31", "unfinished 31"),
        ("unfinished \x1b]0;title", "unfinished 0;title"),
        ("nul\x00bell\x07back\x08del\x7f", "nulbellbackdel"),
        ("turned \u202eround\u2066 and \u200binvisible\ufeff", "turned round and invisible"),
        ("lone \ud800 surrogate", "lone surrogate"),
        ("Zürich, 東京, Ω", "Zürich, 東京, Ω"),
        ("", ""),
        (ValueError(), "ValueError"),
        (ValueError("wrong\nvalue"), "wrong value"),
        (b"\x1b", "b'\\x1b'"),
    ],
)
def test_text_becomes_one_printable_line(text: object, line: str) -> None:
    assert one_line(text) == line


def test_a_long_line_keeps_its_beginning_and_its_end() -> None:
    assert one_line("a" * 500) == "a" * 500
    for long in ("begin " + "x" * 600 + " end", "begin " + "x" * 10_000_000 + " end"):
        line = one_line(long)
        assert 495 <= len(line) <= 500
        assert line.startswith("begin xxx")
        assert line.endswith("xxx end")
        assert " ... " in line
    assert len(one_line("y" * 100, limit=16)) == 16


def test_no_text_yields_a_longer_or_an_unprintable_line() -> None:
    rng = random.Random(7)
    alphabet = "\x1b\x9b\x9d\x07\\[]P;0123mHab \n\t\r\x00\u202e\ud800\U000e0041é漢"
    for _ in range(2000):
        text = "".join(rng.choices(alphabet, k=rng.randrange(80)))
        line = one_line(text, limit=40)
        assert len(line) <= 40
        assert line.isprintable()
        assert one_line(line, limit=40) == line
    for start in ("\x1b]", "\x1b[", "\x1b", "\x9d", " "):
        assert len(one_line(start * 1_000_000)) <= 500


def test_the_message_of_every_error_for_users_is_one_printable_line() -> None:
    error = CheckpointError("\x1b[31mmodel.safetensors\x1b[0m\nis damaged\x07" + "!" * 1000 + " copy it again")
    line = str(error)
    assert line.startswith("model.safetensors is damaged!!!")
    assert line.endswith("!!! copy it again")
    assert len(line) <= 500
    assert line.isprintable()
    again = pickle.loads(pickle.dumps(error))  # as it travels between processes
    assert str(again) == line


def test_the_command_ends_with_one_printable_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        stop("error: \x1b[2J\nfile " + "x" * 5000, 2)
    assert end.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: file xxx")
    assert shown.count("\n") == 1
    assert len(shown) <= 501
