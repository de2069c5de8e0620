"""Reads files that may come from elsewhere: regular files alone, of bounded size, by names that stay in their folder.

A path may lead to a FIFO, on which a reader waits forever, or to a device, which never ends. A document may be nested
more deeply than Python's stack, or name files outside its folder.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

from grpo_core.errors import one_line

MIB = 1 << 20
DOCUMENT_BYTES = 64 * MIB  # no document of a run or a model is longer
ANY_SIZE = sys.maxsize  # of a file that is never in memory as a whole
_DEEPEST_KEY = 64  # parts; tomllib's time grows with the square of their number
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")

# Bare and quoted parts; every quantifier is possessive, so that no text takes longer than its length says.
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DEEP_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{_DEEPEST_KEY}}}")


def check_regular(path: Path, limit: int | None = None) -> int:
    """Return the size in bytes of a regular file of at most ``limit`` bytes; links are followed.

    ``limit`` None is this machine's memory, for a file that is held there as a whole.

    Raises:
        OSError: there is no such file, it is longer, or it is a folder, a FIFO, a device or a socket; ``strerror`` is
            the reason.
    """
    try:
        status = os.stat(path)
    except ValueError as error:  # a NUL, or half of a surrogate pair
        raise OSError(errno.EINVAL, "no file can have this name", one_line(path)) from error
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "no file")
        number = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
        raise OSError(number, f"it is {kind}, and a regular file is needed", str(path))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = memory if limit is None else limit
    if status.st_size > most:
        said = f"it has {status.st_size / MIB:,.0f} MiB, and at most {most / MIB:,.0f} MiB are read"
        why = ", the memory of this machine" if limit is None else ""
        raise OSError(errno.EFBIG, said + why, str(path))
    return status.st_size


def read_bytes(path: Path, limit: int | None = DOCUMENT_BYTES) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes, as for ``check_regular``.

    Raises:
        OSError: as ``check_regular``, or the file cannot be read; ``strerror`` is the reason.
    """
    check_regular(path, limit)
    return path.read_bytes()


def read_text(path: Path, limit: int | None = DOCUMENT_BYTES) -> str:
    """Return a regular file's text.

    Raises:
        OSError: as ``read_bytes``.
        ValueError: it is not UTF-8.
    """
    return read_bytes(path, limit).decode("utf-8")


def read_json(path: Path, limit: int = DOCUMENT_BYTES) -> Any:
    """Return the document in a regular file.

    Raises:
        OSError: as ``read_bytes``.
        ValueError: as ``parse_json``.
    """
    return parse_json(read_bytes(path, limit))


def parse_json(text: str | bytes) -> Any:
    """Return the document in a text.

    Raises:
        ValueError: it is not one JSON document, is nested too deeply, or has a number of thousands of digits or a
            string that is not Unicode.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    try:
        document = json.loads(text)
        halves = _ESCAPED_HALF.search(text) and _HALF_PAIR.search(json.dumps(document, ensure_ascii=False))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError:
        raise
    except ValueError:
        raise ValueError("a number in it has thousands of digits") from None
    if halves:
        raise ValueError("a string in it is not Unicode: it has half of a surrogate pair")
    return document


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises:
        ValueError: it is not TOML, is nested too deeply, or has a number of thousands of digits.
    """
    if deep := _DEEP_KEY.search(text):
        raise ValueError(f"the key {one_line(deep[0], 40)} has more than {_DEEPEST_KEY} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        raise ValueError("a number in it has thousands of digits") from None


def path_inside(folder: Path, name: object) -> Path:
    """Return the path of a file in ``folder`` or below by a name that a document gave.

    Raises:
        ValueError: it is no relative name, or it leaves the folder.
    """
    if not isinstance(name, str) or not name.isprintable():
        raise ValueError(f"{one_line(repr(name), 80)} is no name of a file")
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        raise ValueError(f"{one_line(name, 80)!r} is no file in the folder {folder}")
    return folder / name


def file_name(text: str) -> str:
    """A name for a file or folder: ``policy-champion`` of ``policy:champion``; letters, digits, - _ and . stay."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)
