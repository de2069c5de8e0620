"""What others may have written to the server: names, counters and a lock's holder."""

from __future__ import annotations

import logging

import pytest

from services.replay.buffer import ReplayError
from services.replay.redis_store.replies import LockHolder, count_of, holder_of, name_of, names_of


def test_only_short_printable_utf8_is_a_name(caplog: pytest.LogCaptureFixture) -> None:
    foreign = [b"\xff\xfe", b"A\x1b[31m", b"", b"x" * 201, b"two\nlines"]
    assert all(name_of(reply) is None for reply in foreign)
    with caplog.at_level(logging.WARNING):
        assert names_of([b"FRANCE", *foreign, "Österreich".encode(), b"AUSTRIA"], "entente:r:roles") == [
            *("AUSTRIA", "FRANCE", "Österreich"),
        ]
    assert len(caplog.records) == len(foreign)
    assert all(record.getMessage().isprintable() for record in caplog.records)


def test_a_counter_is_a_number() -> None:
    assert count_of(None, "poison", "k") == 0
    assert count_of(b"12", "poison", "k") == 12
    for foreign in (b"many", b"\xff", b"9" * 5_000):
        with pytest.raises(ReplayError, match="HDEL k poison") as raised:
            count_of(foreign, "poison", "k")
        assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"{}",
        b"[" * 1024,
        b'{"host": "h", "machine": "m", "pid": "7", "started": 1.0, "token": "t"}',
        b'{"host": "h", "machine": "m", "pid": -7, "started": 1.0, "token": "t"}',
        b'{"host": "h", "machine": "m", "pid": 99999999999999999999, "started": 1.0, "token": "t"}',
        b'{"host": "\xff", "machine": "m", "pid": 7, "started": 1.0, "token": "t"}',
    ],
)
def test_what_no_learner_wrote_holds_no_lock(value: bytes) -> None:
    assert holder_of(value) is None


def test_a_learner_holds_its_lock() -> None:
    value = b'{"host": "h", "machine": "m", "pid": 7, "started": 1, "token": "t"}'
    assert holder_of(value) == LockHolder("h", "m", 7, 1.0, "t")
    assert holder_of(value[:-1] + b', "version": "9"}') == LockHolder("h", "m", 7, 1.0, "t")
