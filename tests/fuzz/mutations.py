"""Changes that make hostile input of good input: of documents, of texts, and of the files themselves.

Every change takes a ``random.Random`` and returns what it did in a few words, for the name of a finding.
"""

from __future__ import annotations

import copy
import json
import math
import os
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomli_w

# Written in place of a value that no Python object can hold; ``unquoted`` puts the text itself there.
DIGITS, DEEP = "@@digits@@", "@@deep@@"
_TEXTS = {DIGITS: "9" * 10_000, DEEP: "[" * 20_000 + "]" * 20_000}

VALUES: tuple[tuple[str, Any], ...] = (
    ("null", None),
    ("true", True),
    ("false", False),
    ("0", 0),
    ("1", 1),
    ("-1", -1),
    ("2**31", 2**31),
    ("2**63", 2**63),
    ("-2**70", -(2**70)),
    ("1e308", 1e308),
    ("-0.5", -0.5),
    ("nan", math.nan),
    ("inf", math.inf),
    ("no text", ""),
    ("a digit as text", "5"),
    ("true as text", "true"),
    ("a space", " "),
    ("a tilde", "~/x"),
    ("a very long text", "x" * 100_000),
    ("a NUL", "a\0b"),
    ("an escape", "\x1b]0;owned\x07\x1b[31mred"),
    ("a line break", "a\nb\r\nc"),
    ("half a pair", "\ud800"),
    ("reversed", "a\u202eb"),
    ("markup", "[red]x[/]"),
    ("parents", "../../../../etc/passwd"),
    ("absolute", "/etc/passwd"),
    ("a device", "/dev/zero"),
    ("a long path", "a/" * 3000),
    ("a long name", "n" * 300),
    ("format", "{0.__class__} %s %n"),
    ("an empty list", []),
    ("an empty table", {}),
    ("a list", [1, "a", None]),
    ("a table", {"a": {"b": [1]}}),
    ("digits", DIGITS),
    ("lists in lists", [[[[[[[[1]]]]]]]]),
    ("a long list", list(range(5000))),
    ("deep", DEEP),
    ("a date", "1901-01-01"),
    ("an empty host label", "a..b"),
    ("a url", "http://h:99999/"),
)


def places(document: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a document of dicts and lists, the document's own included."""
    yield at
    pairs = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in pairs:
        yield from places(value, (*at, key))


def changed(rng: random.Random, document: Any) -> tuple[str, Any]:
    """A document with one or two values changed in kind, removed, repeated, renamed or moved."""
    names, document = [], copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2))):
        # By depth first, so that a long list of numbers does not take nearly all changes.
        found = list(places(document))
        depth = rng.randrange(max(map(len, found)) + 1)
        at = rng.choice([path for path in found if len(path) == depth])
        name, document = _changed_at(rng, document, at)
        names.append(f"{'.'.join(map(str, at))[:80] or 'the whole'}: {name}")
    return "; ".join(names), document


def _changed_at(rng: random.Random, document: Any, at: tuple[Any, ...]) -> tuple[str, Any]:
    if not at:
        return rng.choice(VALUES)
    parent = document
    for key in at[:-1]:
        parent = parent[key]
    key, how = at[-1], rng.random()
    if how < 0.65:
        name, value = rng.choice(VALUES)
        parent[key] = copy.deepcopy(value)
        return name, document
    if how < 0.8:
        del parent[key]
        return "removed", document
    if isinstance(parent, list):
        times = rng.choice((1, 1, 3000))
        parent[key:key] = [copy.deepcopy(parent[key]) for _ in range(times)]
        return f"{times} more", document
    other = rng.choice([name for _, name in VALUES if isinstance(name, str)] + ["unknown", f"{key}x"])
    if how < 0.9:
        parent[other] = parent.pop(key)
        return f"renamed {other[:20]!r}", document
    parent[other] = copy.deepcopy(parent[rng.choice(list(parent))])
    return f"added {other[:20]!r}", document


def unquoted(text: str) -> str:
    """A written document with the numbers and lists that its strings stand for."""
    for mark, whole in _TEXTS.items():
        text = text.replace(f'"{mark}"', whole)
    return text


def toml_bytes(document: dict[str, Any]) -> bytes:
    """A document as TOML, which has no null."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(each) for name, each in value.items() if each is not None}
        return [plain(each) for each in value if each is not None] if isinstance(value, list) else value

    return unquoted(tomli_w.dumps(plain(document))).encode("utf-8", "surrogatepass")


def json_bytes(document: Any) -> bytes:
    """A document as JSON; NaN, infinities and half pairs are written as Python does."""
    return unquoted(json.dumps(document)).encode()


def damaged(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    """The bytes of a file, cut, garbled, nested or blown up."""
    cut = rng.randrange(len(data) + 1)
    numbers = list(re.finditer(rb"\d+", data[:20_000]))
    number = rng.choice(numbers).span() if numbers else (0, 0)
    return rng.choice(
        [
            ("empty", b""),
            (f"cut at {cut}", data[:cut]),
            (f"without its first {cut}", data[cut:]),
            (f"NUL at {cut}", data[:cut] + b"\0" + data[cut:]),
            (f"no UTF-8 at {cut}", data[:cut] + b"\xff\xfe\x80" + data[cut:]),
            (f"escape at {cut}", data[:cut] + b"\x1b[2J" + data[cut:]),
            ("a byte order mark", b"\xef\xbb\xbf" + data),
            ("twice", data + data),
            ("UTF-16", data.decode("utf-8", "replace").encode("utf-16")),
            ("zeros", bytes(1 << 16)),
            ("noise", rng.randbytes(4096)),
            ("deep lists", b"[" * 100_000),
            ("deep tables", b'{"a":' * 100_000),
            ("a long line", b"a" * (2 << 20)),
            (f"digits at {number[0]}", data[: number[0]] + b"7" * 10_000 + data[number[1] :]),
            (f"a flipped bit at {cut}", data[:cut] + bytes(b ^ 4 for b in data[cut : cut + 1]) + data[cut + 1 :]),
            ("a long dotted key", b"a" + b".a" * 50_000 + b" = 1\n" + data),
        ]
    )


def replaced(rng: random.Random, path: Path) -> str:
    """Put something else in a file's place: a FIFO, a folder, a link, a file of holes, or nothing."""
    data = path.read_bytes() if path.is_file() else b""
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    how = rng.choice(("gone", "FIFO", "folder", "zero", "null", "itself", "dangling", "link", "huge", "elsewhere"))
    if how == "FIFO":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    elif how == "huge":
        path.write_bytes(data)
        os.truncate(path, 1 << 42)  # of holes: takes no space
    elif how == "link":  # to the same content, which is allowed
        kept = path.with_name(f"{path.name}.kept")
        kept.write_bytes(data)
        path.symlink_to(kept.name)
    elif how != "gone":
        (path.parent / "elsewhere.txt").write_text("root:x:0:0:root:/root:/bin/sh\n")
        targets = {"zero": "/dev/zero", "null": "/dev/null", "itself": path.name, "dangling": "nowhere"}
        path.symlink_to(targets.get(how, "elsewhere.txt"))
    return how


def edit(rng: random.Random, path: Path, shape: str = "json") -> str:
    """Change one file in place: its document if it has one (``shape`` json or lines), its bytes, or its kind."""
    how = rng.random()
    if how < 0.12 or not path.is_file():
        return f"{path.name} is {replaced(rng, path)}"
    data = path.read_bytes()
    if how < 0.3 or shape == "bytes":
        name, data = damaged(rng, data)
    elif shape == "lines":
        lines = data.splitlines(keepends=True) or [b"{}\n"]
        number = rng.randrange(len(lines))
        name, document = changed(rng, json.loads(lines[number]))
        lines[number] = json_bytes(document) + b"\n"
        name, data = f"line {number + 1}, {name}", b"".join(lines)
    else:
        name, document = changed(rng, json.loads(data))
        data = json_bytes(document)
    path.write_bytes(data)
    return f"{path.name}: {name}"
