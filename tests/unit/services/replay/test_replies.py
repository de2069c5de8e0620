"""What others may have written to the server: names, counters and a lock's holder."""

from __future__ import annotations

import logging

import pytest

from services.replay.buffer import ReplayError
from services.replay.redis_store.replies import MOST_NAMES, LockHolder, NameSets, count_of, holder_of, name_of


class OneSet:
    """A server with one set, which sends as many members as it is asked for at a time."""

    def __init__(self, members: list[bytes]) -> None:
        self._members = members
        self.sent = 0

    def sscan(self, key: str, cursor: int, count: int) -> tuple[int, list[bytes]]:
        found = self._members[cursor : cursor + count]
        self.sent += len(found)
        after = cursor + count
        return (after if after < len(self._members) else 0), found


def test_only_short_printable_utf8_is_a_name(caplog: pytest.LogCaptureFixture) -> None:
    foreign = [b"\xff\xfe", b"A\x1b[31m", b"", b"x" * 201, b"two\nlines"]
    assert all(name_of(reply) is None for reply in foreign)
    sets = NameSets(OneSet([b"FRANCE", *foreign, "Österreich".encode(), b"AUSTRIA"]))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert sets.read("entente:r:roles") == ["AUSTRIA", "FRANCE", "Österreich"]
    assert [record.getMessage() for record in caplog.records] == [
        f"entente:r:roles has {len(foreign)} members that are no names and are left out"
    ]


def test_a_set_with_millions_of_members_is_not_read_whole(caplog: pytest.LogCaptureFixture) -> None:
    server = OneSet([b"%d" % number for number in range(3 * MOST_NAMES)])
    sets = NameSets(server)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert len(sets.read("k")) == MOST_NAMES
    assert server.sent == 3 * MOST_NAMES
    assert [record.getMessage() for record in caplog.records] == [
        "k has 0 members that are no names and are left out; more than 10,000 members are not read"
    ]


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
