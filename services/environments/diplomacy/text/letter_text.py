"""Letters as a chat model writes them: a text in which each begins with its recipient's name and a colon."""

from __future__ import annotations

import re
from collections.abc import Collection

from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.letters import EVERYBODY, NOTES
from services.environments.diplomacy.press.proposals import SILENCE, read
from services.environments.diplomacy.press.sayable import partners
from services.environments.diplomacy.press.view import PressPosition
from services.environments.playing import Answer, Defect

_MARKS = "*_`"  # emphasis and code
_HEADING = re.compile(
    rf"^(?P<before>[\s>#\-\u2022{_MARKS}]*(?:(?:letter|message) )?(?:to )?)(?P<name>[a-z]+)"
    rf"(?P<after>[{_MARKS}]*):[{_MARKS}]*\s*(?P<rest>.*)$",
    re.IGNORECASE,
)
_REASONING = "</think>"


def parse_letters(text: str, position: PressPosition) -> Answer:
    """The letters in a text: each begins on a new line with its recipient's name and a colon, and goes on to the next.

    Notes are such a letter to ``NOTES``. A line of the compact language needs no colon. What a model puts around a
    name, such as emphasis, is left out and counted as repaired. Defects are also what stands before the first letter
    ("no_recipient"), letters to a power that is not there or to oneself ("no_recipient"), and a second letter to the
    same power ("second_letter"), of which the first is sent.
    """
    _, closed, after = text.rpartition(_REASONING)
    others = {*partners(position, position.press.reader), *((EVERYBODY,) if position.press.public else ()), NOTES}
    letters: list[tuple[str, list[str]]] = []
    defects: list[Defect] = []
    for line in (after if closed else text).split("\n"):
        heading = _heading(line)
        if heading is not None:
            recipient, rest, is_plain = heading
            if not is_plain:
                defects.append(Defect(line.strip(), "repaired"))
            letters.append((recipient, [rest]))
        elif letters:
            letters[-1][1].append(line.rstrip())
        elif line.strip() and line.strip() != SILENCE:
            defects.append(Defect(line.strip(), "no_recipient"))
    return Answer(tuple(_sent(letters, others, defects)), tuple(defects))


def _heading(line: str) -> tuple[str, str, bool] | None:
    """The recipient, what follows on the line, and whether it is as asked for; None for a line of a letter."""
    name, _, rest = line.strip().partition(" ")
    if name in (*POWERS, EVERYBODY) and (rest == SILENCE or read(rest) is not None):
        return name, rest, True
    found = _HEADING.match(line)
    if found is None or (recipient := found["name"].upper()) not in (*POWERS, EVERYBODY, NOTES):
        return None
    return recipient, found["rest"].strip(), not (found["before"].strip() or found["after"])


def _sent(letters: list[tuple[str, list[str]]], others: Collection[str], defects: list[Defect]) -> list[str]:
    sent: dict[str, str] = {}
    for recipient, lines in letters:
        text = "\n".join(lines).strip()
        if recipient not in others:
            defects.append(Defect(f"{recipient}: {lines[0]}", "no_recipient"))
        elif not text or text == SILENCE:
            continue
        elif recipient in sent:
            defects.append(Defect(f"{recipient}: {lines[0]}", "second_letter"))
        else:
            sent[recipient] = f"{recipient} {text}"
    return list(sent.values())
