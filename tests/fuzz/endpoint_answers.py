"""Answers of a chat endpoint: raw HTTP, whose JSON, framing or bytes are changed."""

from __future__ import annotations

import copy
import gzip
import json
import math
import random
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fuzz.contract import Case, Kind
from tests.unit.services.inference.chat_endpoint.hostile_endpoint import HostileEndpoint, completion, http

ESCAPES = "\x1b]0;owned\x07\x1b[31mred\x1b[0m\x9b2J\u202e\r\n"
STATUSES = (*("200 OK",) * 4, "201 x", "204 x", "100 x", "101 x", "301 x", "307 x", "308 x", "400 x", "422 x", "401 x")
STATUSES += ("404 x", "408 x", "418 x", "429 x", "500 x", "503 x", "599 x", "600 x", "999 x", "099 x", "1000 x", "x")
HEADERS = (
    *("Retry-After: nan", "Retry-After: -1", "Retry-After: 31536000", "Retry-After: tomorrow"),
    *("Location: http://127.0.0.2:1/", "Location: //[", "Location: file:///etc/passwd", "Location: \x1b[31m"),
    *("Content-Encoding: gzip", "Content-Encoding: deflate", "Content-Encoding: br", "Content-Encoding: zstd, gzip"),
    *("Content-Type: text/html", "Content-Type: \x9b2J", "Content-Type: application/json; charset=rot13"),
    *("Content-Length: 5", "Content-Length: -5", "Content-Length: 0x10", f"Content-Length: {10**40}"),
    *("Transfer-Encoding: chunked", "Transfer-Encoding: gzip", "Connection: close", "Connection: upgrade"),
    *("Set-Cookie: a=b", "Set-Cookie: =;;; expires=\x1b[31m", "X" * 5000 + ": y", "X: " + "y" * 200_000, ": y", "X"),
)
ERRORS: tuple[Any, ...] = (
    {"error": {"message": ESCAPES * 50, "code": ESCAPES}},
    {"error": {"message": "seed max_completion_tokens", "code": 7}},
    {"error": "a string" * 500},
    {"object": "error", "message": {"a": [1]}},
    {"detail": [{"loc": ["body", "seed"], "msg": ESCAPES}]},
    [ESCAPES],
)


def cases(rng: random.Random) -> Iterator[Case]:
    """Answers of which most are nearly right: one to three changes to a good one."""
    while True:
        change = rng.choice((_other_values, _other_values, _other_head, _other_framing, _other_bytes, _an_error))
        name, raw = change(rng)
        if rng.random() < 0.1:
            name, raw = f"{name}, cut off", raw[: rng.randrange(len(raw) + 1)]
        yield Case(name, raw)


def run(case: Case, folder: Path, shared: HostileEndpoint) -> None:
    """Let the player decide; a failure is its error. What it counts stays plausible either way."""
    outcome = shared.decide(case.input)
    assert all(math.isfinite(value) and value >= 0 for value in outcome.counted.values()), outcome
    if outcome.error is not None:
        assert outcome.counted["failures"] == 1
        raise outcome.error
    assert outcome.counted["failures"] == 0
    assert outcome.counted["calls"] in (1, 2)
    assert outcome.counted["prompt_tokens"] + outcome.counted["completion_tokens"] <= 40e6


@contextmanager
def endpoint(folder: Path) -> Iterator[HostileEndpoint]:
    """One endpoint and player for all cases of a process."""
    with HostileEndpoint(max_answer_kib=256) as running:
        yield running


def _odd_value(rng: random.Random) -> Any:
    odd: tuple[Any, ...] = (
        *(None, True, False, 0, -1, 7, 1.5, 1e308, 2**63, -(2**70), 10**400),
        *("", "stop", "length", ESCAPES, "\ud800", "\udcff\ud800", "\0", "x" * rng.choice((10, 5000, 400_000))),
        *("A PAR H\n" * 2000, "x" + "*" * 50_000 + "x", "</think>" * 1000, "1." * 20_000),
        *([], {}, [[]], [None], {"": None}, [{}] * 50),
        *(float("nan"), float("inf"), -float("inf")),
    )
    return rng.choice(odd)


def _other_values(rng: random.Random) -> tuple[str, bytes]:
    """The JSON of a completion with other values, names or nesting."""
    data: Any = json.loads(completion())
    changed = []
    for _ in range(rng.randint(1, 3)):
        places = list(_places(data))
        where, holder, key = rng.choice(places)
        way = rng.random()
        if way < 0.15 and isinstance(holder, dict):
            del holder[key]
        elif way < 0.25:
            holder[key] = [copy.deepcopy(holder[key])] * rng.choice((1, 2, 50))
        elif way < 0.3 and isinstance(holder, dict):
            holder[rng.choice(("error", "choices", "usage", ESCAPES))] = _odd_value(rng)
        else:
            holder[key] = _odd_value(rng)
        changed.append(where)
    text = json.dumps(data)
    if rng.random() < 0.1:
        depth = rng.choice((50, 300, 20_000))
        text = text.replace("null", "[" * depth + "]" * depth, 1).replace('"stop"', '{"a":' * depth, 1)
    return f"values of {', '.join(changed)}", http(text)


def _places(data: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(data, dict | list):
        for key in data if isinstance(data, dict) else range(len(data)):
            yield f"{path}.{key}"[:100], data, key
            yield from _places(data[key], f"{path}.{key}"[:100])


def _other_head(rng: random.Random) -> tuple[str, bytes]:
    """Another status, and headers beside or instead of the usual ones."""
    status, headers = rng.choice(STATUSES), rng.sample(HEADERS, rng.randint(0, 3))
    body = rng.choice((completion(), json.dumps(rng.choice(ERRORS)), "", "<html>"))
    raw = http(body, *headers, status=status)
    version = rng.choice((*(b"HTTP/1.1",) * 6, b"HTTP/1.0", b"HTTP/2", b"HTTP/1.1\t", b"ICY", b"\x1b[31m"))
    return f"status {status} with {[header[:40] for header in headers]}", raw.replace(b"HTTP/1.1", version, 1)


def _other_framing(rng: random.Random) -> tuple[str, bytes]:
    """Chunks and compression, right and wrong."""
    body = completion().encode()
    ways: dict[str, Callable[[bytes], bytes]] = {"plain": bytes, "gzip": gzip.compress, "deflate": zlib.compress}
    packing, said = rng.choice(sorted(ways)), rng.choice((*sorted(ways), "identity"))
    if rng.random() < 0.2:
        body = b"\0" * (4 << 20)
    packed = bytearray(ways[packing](body))
    if rng.random() < 0.3 and packed:
        packed[rng.randrange(len(packed))] ^= 1 << rng.randrange(8)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {said}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    pieces = []
    while packed:
        size = rng.choice((1, 16, 4096, 1 << 20))
        piece, packed = bytes(packed[:size]), packed[size:] if len(pieces) < 200 else bytearray()
        length = len(piece) + rng.choice((*(0,) * 60, 1, -1, 2**70))
        pieces.append(rng.choice((b"%x\r\n", b"%x;a=b\r\n", b"%X \r\n")) % max(length, 0) + piece + b"\r\n")
    end = rng.choice(
        (b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"0\r\n", b"", b"0\r\n" + b"X: y\r\n" * 50_000, b"zz\r\n\r\n")
    )
    return f"{packing} called {said} in {len(pieces)} chunks", head + b"".join(pieces) + end


def _other_bytes(rng: random.Random) -> tuple[str, bytes]:
    """A good answer with bytes changed, left out or put in."""
    raw = bytearray(http(completion()))
    count = rng.choice((1, 1, 3, 30))
    for _ in range(count):
        at = rng.randrange(len(raw))
        way = rng.randrange(4)
        if way == 0:
            raw[at] = rng.randrange(256)
        elif way == 1:
            del raw[at : at + rng.choice((1, 10))]
        elif way == 2:
            raw[at:at] = rng.choice((b"\0", b"\r\n", b"\xff\xfe", b"\x1b[31m", b'"', b"[" * 1000, b"\xed\xa0\x80"))
        else:
            raw[at:at] = raw[rng.randrange(len(raw)) :][:20]
        raw = raw or bytearray(b"\0")
    return f"{count} changes to the bytes", bytes(raw)


def _an_error(rng: random.Random) -> tuple[str, bytes]:
    """A server's error, with an odd value somewhere in it."""
    status, data = rng.choice(STATUSES), copy.deepcopy(rng.choice(ERRORS))
    where, holder, key = rng.choice(list(_places(data)))
    holder[key] = _odd_value(rng)
    return f"status {status} with an error whose {where} is odd", http(json.dumps(data), status=status)


KIND = Kind("endpoint answers", cases, run, endpoint)
