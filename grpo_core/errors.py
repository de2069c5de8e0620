"""The base class of all errors with a message for the user, the errors of this package, and text fit for a message."""

from __future__ import annotations

import re
from typing import ClassVar

# Escape sequences of terminals: CSI (colours, the cursor), strings (the title, links, the clipboard), and two letters.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]?"
)
_CUT = " ... "
_READ = 20  # times the limit: what is looked at of each end of a longer text


class EntenteError(Exception):
    """An error that is not a bug: its message is one line that tells the user what to look at or change.

    ``cluster.errors`` lists all of them. As text it has at most 500 printable characters, whatever foreign text it
    quotes.
    """

    exit_code: ClassVar[int] = 2  # of a command that it ends

    def __str__(self) -> str:
        """Return the message as ``one_line`` does: what a message quotes from outside never reaches a terminal raw."""
        return one_line(super().__str__())


class CheckpointError(EntenteError, RuntimeError):
    """A model folder or checkpoint is missing, half written, altered or of another shape."""


class GroupingError(EntenteError, ValueError):
    """A key expression cannot be used: an unknown fact, an outcome, or roles would mix."""


class DivergenceError(EntenteError, RuntimeError):
    """The loss or its gradient is no longer a finite number; the weights are those before the failed step."""


class StorageError(EntenteError, RuntimeError):
    """A file cannot be written; the message names it, says why, and ends with what to do, such as to free space."""


class ResourceError(EntenteError, RuntimeError):
    """The machine has too little memory for the request; the message gives the need and what to change."""


def one_line(text: object, limit: int = 500) -> str:
    """Return ``text`` as one printable line of at most ``limit`` (>= 16) characters, for messages, logs and terminals.

    Text from outside (an answer, a file, an exception that quotes one) passes through here before it is shown. Any
    whitespace becomes one space. Terminal escape sequences, control and formatting characters (also those that reverse
    the direction of writing), lone surrogates and unassigned characters are left out. A longer line loses its middle.
    An exception without a message gives the name of its class.
    """
    whole = str(text)
    if len(whole) > 2 * _READ * limit:
        whole = whole[: _READ * limit] + _CUT + whole[-_READ * limit :]
    kept = (letter if letter.isprintable() else " " * letter.isspace() for letter in _ESCAPES.sub("", whole))
    line = " ".join("".join(kept).split())
    if not line and isinstance(text, BaseException):
        line = type(text).__name__
    if len(line) <= limit:
        return line
    tail = (limit - len(_CUT)) // 3
    return line[: limit - len(_CUT) - tail].rstrip() + _CUT + line[-tail:].lstrip()
