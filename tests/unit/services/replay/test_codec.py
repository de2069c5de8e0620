from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import msgspec
import numpy as np
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grpo_core.types import Episode, Turn
from services.replay import codec
from services.replay.codec import CodecError, decode, encode
from services.replay.synthetic_episodes import synthetic_episode

finite = st.floats(allow_nan=False, allow_infinity=False)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
name = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)
keys = st.dictionaries(text, text | st.integers(-(2**63), 2**63 - 1), max_size=3)
token_id = st.integers(0, 2**31 - 1) | st.integers(0, 300)


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    mask = draw(st.lists(st.booleans(), max_size=6))
    free = draw(st.booleans())
    counts = [] if free else draw(st.lists(st.integers(0, 3), min_size=sum(mask), max_size=sum(mask)))
    logprobs = st.floats(width=32, allow_nan=False, allow_infinity=False)
    return Turn(
        prompt_ids=np.array(draw(st.lists(token_id, max_size=5)), np.int32),
        completion_ids=np.array(draw(st.lists(token_id, min_size=len(mask), max_size=len(mask))), np.int32),
        logprobs=np.array(draw(st.lists(logprobs, min_size=len(mask), max_size=len(mask))), np.float32),
        trained_mask=np.array(mask, np.bool_),
        admissible_ids=np.array(draw(st.lists(token_id, min_size=sum(counts), max_size=sum(counts))), np.int32),
        admissible_offsets=np.array([] if free else np.cumsum([0, *counts]), np.int32),
        policy_version=draw(st.integers(0, 2**40)),
        temperature=draw(st.floats(1e-3, 10)),
        phase=draw(text),
        reward=draw(finite),
        elapsed_phases=draw(st.integers(0, 100)),
        keys=draw(keys),
        defects=tuple(draw(st.lists(text, max_size=2))),
    )


episodes = st.builds(
    Episode,
    episode_id=name,
    task=name | st.just(""),
    role=name,
    block_id=name,
    block_size=st.integers(1, 100),
    keys=keys,
    turns=st.lists(turns(), max_size=4).map(tuple),
    reward=finite,
    reward_parts=st.dictionaries(text, finite, max_size=3),
    outcome=st.dictionaries(text, finite, max_size=3),
    seed=st.integers(0, 2**63 - 1),
)


def assert_same(ours: Any, theirs: Any) -> None:
    """Equal field by field: arrays in type, shape and every value, the rest by ``==``."""
    for field in fields(ours):
        left, right = getattr(ours, field.name), getattr(theirs, field.name)
        if field.name == "turns":
            assert len(left) == len(right)
            for a, b in zip(left, right, strict=True):
                assert_same(a, b)
        elif isinstance(left, np.ndarray):
            assert left.dtype == right.dtype
            np.testing.assert_array_equal(left, right)
        else:
            assert (left, type(left)) == (right, type(right))


@given(episodes)
@settings(max_examples=100, deadline=None)
def test_decode_inverts_encode(episode: Episode) -> None:
    assert_same(decode(encode(episode)), episode)


def test_realistic_episode_is_compressed_and_decoded_read_only() -> None:
    episode = synthetic_episode("b", 0)
    data = encode(episode)
    back = decode(data)
    assert_same(back, episode)
    arrays = sum(turn.prompt_ids.nbytes + turn.admissible_ids.nbytes for turn in episode.turns)
    assert len(data) < arrays
    with pytest.raises(ValueError, match="read-only"):
        back.turns[0].prompt_ids[0] = 1


@given(st.integers(0, 1000), st.integers(1, 255))
@settings(max_examples=100, deadline=None)
@example(339, 16)
def test_damaged_bytes_raise_or_hold_the_same_episode(at: int, flipped: int) -> None:
    good = encode(synthetic_episode("b", 0, turns=2, prompt_tokens=5, completion_tokens=5))
    damaged = bytearray(good)
    damaged[at % len(good)] ^= flipped
    try:
        episode = decode(bytes(damaged))
    except CodecError:
        return
    assert encode(episode) == good  # zstd can write the same content in other bytes, about one flip in 10,000


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 20])
def test_truncated_bytes_raise(length: int) -> None:
    with pytest.raises(CodecError):
        decode(encode(synthetic_episode("b", 0, turns=1))[:length])


def test_newer_schema_raises_its_own_message() -> None:
    data = bytearray(encode(synthetic_episode("b", 0, turns=1)))
    data[3] = codec.SCHEMA_VERSION + 1
    with pytest.raises(CodecError, match="written by a newer version"):
        decode(bytes(data))


def test_unknown_older_schema_raises() -> None:
    data = bytearray(encode(synthetic_episode("b", 0, turns=1)))
    data[3] = 0
    with pytest.raises(CodecError, match="unknown episode schema 0"):
        decode(bytes(data))


def frame(raw: bytes, **options: Any) -> bytes:
    return b"ENT" + bytes([codec.SCHEMA_VERSION]) + zstandard.ZstdCompressor(**options).compress(raw)


def test_oversized_frame_is_refused_before_decompression(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_EPISODE_BYTES", 1 << 20)
    bomb = frame(bytes(codec.MAX_EPISODE_BYTES + 1))
    assert len(bomb) < 1000
    with pytest.raises(CodecError, match="unpacks to more than"):
        decode(bomb)


def test_frame_of_unknown_size_raises() -> None:
    with pytest.raises(CodecError, match="unknown size"):
        decode(frame(b"x" * 100, write_content_size=False))


def record(**changes: Any) -> list[Any]:
    """The fields of a valid record of one turn, some of them changed."""
    row = {
        "prompt_length": 2,
        "completion_length": 2,
        "admissible_length": 3,
        "offsets_length": 2,
        "policy_version": 0,
        "temperature": 1.0,
        "phase": "S1901M",
        "reward": 0.0,
        "elapsed_phases": 1,
        "keys": {},
        "defects": [],
    }
    whole = {
        "episode_id": "b/0",
        "task": "diplomacy",
        "role": "FRANCE",
        "block_id": "b",
        "block_size": 1,
        "keys": {},
        "reward": 0.0,
        "reward_parts": {},
        "outcome": {},
        "seed": 0,
        "turns": None,
        "prompt_ids": [1, b"\x01\x02"],
        "completion_ids": [1, b"\x01\x02"],
        "logprobs": [4, np.array([0, -1], "<f4").tobytes()],
        "trained_mask": [1, b"\x00\x01"],
        "admissible_ids": [1, b"\x01\x02\x03"],
        "admissible_offsets": [1, b"\x00\x03"],
    }
    assert changes.keys() <= row.keys() | whole.keys()
    row.update({key: value for key, value in changes.items() if key in row and key not in ("reward", "keys")})
    whole.update({key: value for key, value in changes.items() if key in whole})
    whole["turns"] = whole["turns"] or [list(row.values())]
    return list(whole.values())


def test_hand_written_record_decodes() -> None:
    assert decode(frame(msgspec.msgpack.encode(record()))).turns[0].admissible_ids.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"prompt_length": 3}, "prompt_ids holds 2 bytes"),
        ({"prompt_length": -2}, "prompt_ids holds 2 bytes"),
        ({"prompt_length": 2**80 // 2**17}, "its arrays take"),
        ({"completion_length": 1}, "completion_ids holds"),
        ({"logprobs": [4, b"\0\0\0\0"]}, "logprobs holds 4 bytes"),
        ({"logprobs": [8, b"\0" * 16]}, "an invalid width of 8 bytes"),
        ({"logprobs": [4, np.array([0, np.nan], "<f4").tobytes()]}, "not finite"),
        ({"trained_mask": [1, b"\x00\x02"]}, "neither 0 nor 1"),
        ({"trained_mask": [1, b"\x01\x01"]}, "2 admissible offsets for 2 sampled tokens"),
        ({"prompt_ids": [3, b"\x01\x02\x03\x04\x05\x06"]}, "an invalid width of 3 bytes"),
        ({"prompt_ids": [4, b"\x01\0\0\0\0\0\0\xff"]}, "negative token id"),
        ({"admissible_length": 2}, "admissible_ids holds"),
        ({"admissible_offsets": [1, b"\x00\x02"]}, "must run from 0 to 3"),
        ({"admissible_offsets": [1, b"\x01\x03"]}, "must run from 0 to 3"),
        ({"offsets_length": 0, "admissible_offsets": [1, b""]}, "0 admissible offsets for 1 sampled"),
        ({"temperature": 0.0}, "bad temperature"),
        ({"policy_version": -1}, "cannot be negative"),
        ({"reward": float("inf")}, "not a finite number"),
        ({"reward_parts": {"win": float("nan")}}, "not a finite number"),
        ({"block_size": 0}, "block_size is 0"),
        ({"role": ""}, "must not be empty"),
        ({"role": 7}, "not an episode"),
        ({"seed": "7"}, "not an episode"),
        ({"keys": {"country": [1]}}, "not an episode"),
    ],
)
def test_inconsistent_records_raise(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(CodecError, match=complaint):
        decode(frame(msgspec.msgpack.encode(record(**changes))))


def test_offsets_that_decrease_within_a_turn_raise() -> None:
    changes = {"trained_mask": [1, b"\x01\x01"], "admissible_offsets": [1, b"\x00\x05\x03"], "offsets_length": 3}
    with pytest.raises(CodecError, match="decrease"):
        decode(frame(msgspec.msgpack.encode(record(**changes))))


def test_record_with_extra_or_missing_field_raises() -> None:
    for fields_ in ([*record(), 1], record()[:-1], [], {}, None):
        with pytest.raises(CodecError, match="not an episode"):
            decode(frame(msgspec.msgpack.encode(fields_)))


def changed_turn(**changes: Any) -> Episode:
    episode = synthetic_episode("b", 0, turns=2)
    return replace(episode, turns=(episode.turns[0], replace(episode.turns[1], **changes)))


@pytest.mark.parametrize(
    ("episode", "complaint"),
    [
        (changed_turn(prompt_ids=np.zeros(3, np.int64)), "turn 1: prompt_ids is 1-d int64"),
        (changed_turn(prompt_ids=np.zeros((3, 1), np.int32)), "turn 1: prompt_ids is 2-d"),
        (changed_turn(logprobs=np.zeros(3, np.float32)), "turn 1: 100 completion ids, but 3 log-probabilities"),
        (changed_turn(admissible_offsets=np.zeros(2, np.int32)), "turn 1: 2 admissible offsets"),
        (changed_turn(prompt_ids=np.array([-1], np.int32)), "negative token id"),
        (changed_turn(keys={"phase": True}), "group keys are text or integers"),
        (changed_turn(keys={"phase": 1.5}), "group keys are text or integers"),
        (changed_turn(policy_version=2**70), "cannot be stored"),
        (changed_turn(phase="\ud800"), "cannot be stored"),
        (replace(changed_turn(), reward=float("nan")), "not a finite number"),
    ],
)
def test_encode_refuses_invalid_episodes(episode: Episode, complaint: str) -> None:
    with pytest.raises(CodecError, match=complaint):
        encode(episode)
