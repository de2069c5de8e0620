"""Letters as a chat model writes them: a text in which each begins with its recipient's name and a colon."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.letters import EVERYBODY, NOTES, cleaned
from services.environments.diplomacy.press.proposals import SILENCE, read
from services.environments.diplomacy.press.sayable import partners
from services.environments.diplomacy.press.view import PressPosition, PressView
from services.environments.playing import Answer, Defect

_MARKS = "*_`"  # emphasis and code
_HEADING = re.compile(
    rf"^(?P<before>[\s#\-\u2022{_MARKS}]*(?:(?:letter|message) )?(?:to )?)(?P<name>[a-z]+)"
    rf"(?P<after>[{_MARKS}]*):[{_MARKS}]*\s*(?P<rest>.*)$",
    re.IGNORECASE,
)
_REASONING = "</think>"
_QUOTED = 80  # characters of a letter in a defect


def parse_letters(text: str, position: PressPosition) -> Answer:
    """The letters in a text: each begins on a new line with its recipient's name and a colon, and goes on to the next.

    Notes are such a letter to ``NOTES``. A line of the compact language needs no colon. What a model puts around the
    first name, such as emphasis, or small letters, it may put around the others as well; that is left out and counted
    as repaired. Other lines that begin with a power's name, and quotations, are parts of letters. Defects are also what
    stands before the first letter ("no_recipient"), letters to a power that is not there or to oneself
    ("no_recipient"), a second letter to the same power ("second_letter"), of which the first is sent, a letter that is
    longer than what is left of the reader's budget ("no_budget"), which is not sent, and one or notes whose end is left
    out ("too_long"); characters that letters must not have are left out as well, and counted as repaired.
    """
    _, closed, after = text.rpartition(_REASONING)
    others = {*partners(position, position.press.reader), *((EVERYBODY,) if position.press.public else ()), NOTES}
    letters: list[tuple[str, list[str]]] = []
    defects: list[Defect] = []
    style: _Style | None = None  # of the first heading
    for line in (after if closed else text).split("\n"):
        heading = _heading(line)
        if heading is not None and (style is None or heading.style in (style, _PLAIN)):
            style = style or heading.style
            if heading.style != _PLAIN:
                defects.append(Defect(line.strip(), "repaired"))
            letters.append((heading.recipient, [heading.rest]))
        elif letters:
            letters[-1][1].append(line.rstrip())
        elif line.strip() and line.strip() != SILENCE:
            defects.append(Defect(line.strip(), "no_recipient"))
    return Answer(tuple(_sent(letters, others, position.press, defects)), tuple(defects))


class _Style(NamedTuple):
    """What stands around a recipient's name, and whether it is in capital letters."""

    before: str
    after: str
    is_upper: bool


_PLAIN = _Style("", "", is_upper=True)


class _Heading(NamedTuple):
    recipient: str
    rest: str
    style: _Style


def _heading(line: str) -> _Heading | None:
    """The beginning of a letter; None for a line that goes on with one."""
    name, _, rest = line.strip().partition(" ")
    if name in (*POWERS, EVERYBODY) and (rest == SILENCE or read(rest) is not None):
        return _Heading(name, rest, _PLAIN)
    found = _HEADING.match(line)
    if found is None or (recipient := found["name"].upper()) not in (*POWERS, EVERYBODY, NOTES):
        return None
    style = _Style(found["before"].strip().lower(), found["after"], found["name"].isupper())
    return _Heading(recipient, found["rest"].strip(), style)


def _sent(
    letters: list[tuple[str, list[str]]], others: Collection[str], press: PressView, defects: list[Defect]
) -> list[str]:
    sent: dict[str, str] = {}
    left = press.left
    for recipient, lines in letters:
        text, changes = cleaned("\n".join(lines), press.longest)
        quoted = f"{recipient}: {lines[0][:_QUOTED]}"
        if recipient not in others:
            defects.append(Defect(quoted, "no_recipient"))
            continue
        if recipient in sent and text and text != SILENCE:
            defects.append(Defect(quoted, "second_letter"))
            continue
        defects += [Defect(quoted, reason) for reason in changes]
        if not text or text == SILENCE:
            continue
        if left is not None and recipient != NOTES:
            if len(text) > left:
                defects.append(Defect(quoted, "no_budget"))
                continue
            left -= len(text)
        sent[recipient] = f"{recipient} {text}"
    return list(sent.values())
