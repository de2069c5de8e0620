"""Small frames that unpack to very much are refused before they take time or memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
import zstandard

from services.replay import codec
from services.replay.codec import CodecError, decode, encode
from services.replay.codec_columns import COLUMN_DTYPES
from services.replay.synthetic_episodes import synthetic_episode

EPISODE = synthetic_episode("b0", 0, block_size=1, turns=2)
TURNS_AT = 10  # of the record's fields


def frame(record: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor(write_checksum=True, write_content_size=True)
    return encode(EPISODE)[: codec.SCHEMA_AT + 1] + compressor.compress(record)


def with_turns(turns: bytes) -> bytes:
    """An episode's frame with other turns, given as msgpack."""
    data = zstandard.ZstdDecompressor().decompress(encode(EPISODE)[codec.SCHEMA_AT + 1 :])
    fields: list[Any] = msgspec.msgpack.decode(data)
    packed = [msgspec.msgpack.encode(field) for field in fields]
    packed[TURNS_AT] = turns
    return frame(b"\xdc" + len(packed).to_bytes(2, "big") + b"".join(packed))


def many(item: bytes, count: int) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big") + item * count


def of_zeros(tokens: int, **others: int) -> bytes:
    """A frame of one turn whose prompt is this many zeros, one byte each; ``others`` are lengths of other arrays."""
    record: list[Any] = msgspec.msgpack.decode(
        zstandard.ZstdDecompressor().decompress(encode(EPISODE)[codec.SCHEMA_AT + 1 :])
    )
    lengths = (tokens, others.get("completion", 0), 0, 0)
    columns = [[1, bytes(tokens)], *([width, b""] for width in (1, 4, 1, 1, 1))]
    record[TURNS_AT:] = [[msgspec.msgpack.decode(row(lengths=lengths))], *columns]
    return frame(msgspec.msgpack.encode(record))


def row(**changes: Any) -> bytes:
    fields = {"lengths": (0, 0, 0, 0), "version": 0, "temperature": 1.0, "phase": "", "reward": 0.0, "elapsed": 0}
    fields |= {"keys": {}, "defects": ()} | changes
    lengths, *rest = fields.values()
    return msgspec.msgpack.encode([*lengths, *rest])


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        (many(row(), 3_000_000), "its turns take more than 16777216 bytes"),
        (many(row(), codec.MAX_TURNS + 1), f"of length <= {codec.MAX_TURNS}"),
        (many(row(keys={str(key): 0 for key in range(200)}), 2), "of length <= 100"),
        (b"\x91" * 1_000_000, "not an episode"),
    ],
    ids=["bytes", "turns", "keys", "depth"],
)
def test_a_bomb_of_turns_is_refused(turns: bytes, reason: str) -> None:
    data = with_turns(turns)
    assert len(data) < 100_000
    with pytest.raises(CodecError, match=reason):
        decode(data)


@pytest.mark.parametrize("others", [{}, {"completion": -(1 << 40)}], ids=["alone", "beside a negative length"])
def test_arrays_that_decode_to_very_much_are_refused(others: dict[str, int]) -> None:
    tokens = codec.MAX_EPISODE_BYTES // 4 + 1  # a quarter of the limit as stored
    data = of_zeros(tokens, **others)
    assert len(data) < 10_000
    with pytest.raises(CodecError, match=f"its arrays take {4 * tokens} bytes, over {codec.MAX_EPISODE_BYTES}"):
        decode(data)


def test_arrays_at_the_limit_are_written_and_read_and_larger_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(getattr(turn, name).nbytes for turn in EPISODE.turns for name in COLUMN_DTYPES)
    monkeypatch.setattr(codec, "MAX_EPISODE_BYTES", size)
    data = encode(EPISODE)
    assert decode(data).tokens == EPISODE.tokens
    monkeypatch.setattr(codec, "MAX_EPISODE_BYTES", size - 1)
    with pytest.raises(CodecError, match="cannot be stored: its arrays take"):
        encode(EPISODE)
    with pytest.raises(CodecError, match="its arrays take"):
        decode(data)


def test_names_and_mappings_are_bounded_when_they_are_written_and_read() -> None:
    long = "x" * 300
    many_parts = {str(part): 0.0 for part in range(2_000)}
    for changed in (
        replace(EPISODE, role=long),
        replace(EPISODE, episode_id=long),
        replace(EPISODE, keys=dict(many_parts)),
        replace(EPISODE, outcome=many_parts),
        replace(EPISODE, turns=EPISODE.turns[:1] * (codec.MAX_TURNS + 1)),
    ):
        with pytest.raises(CodecError, match="cannot be stored"):
            encode(changed)
    record: list[Any] = msgspec.msgpack.decode(
        zstandard.ZstdDecompressor().decompress(encode(EPISODE)[codec.SCHEMA_AT + 1 :])
    )
    record[0] = long
    with pytest.raises(CodecError, match="not an episode"):
        decode(frame(msgspec.msgpack.encode(record)))


@pytest.mark.parametrize("field", ["episode_id", "task", "role", "block_id"])
@pytest.mark.parametrize("name", ["FRANCE\xa01", "two\nlines", "\x1b[31m", "\u202eback", "a\0"], ids=ascii)
def test_a_name_that_a_server_would_not_give_back_is_not_written(field: str, name: str) -> None:
    with pytest.raises(CodecError, match="is not printable text of at most 200 characters") as raised:
        encode(replace(EPISODE, **{field: name}))  # type: ignore[arg-type]
    assert str(raised.value).isprintable()


def test_an_episode_at_the_limit_of_turns_is_read_again() -> None:
    turns = EPISODE.turns[:1] * codec.MAX_TURNS
    assert len(decode(encode(replace(EPISODE, turns=turns))).turns) == codec.MAX_TURNS
