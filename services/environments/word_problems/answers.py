"""Reads the final answer of a completion as an exact number.

An answer counts where it is marked, and the last mark that holds a number wins:

1. ``#### 72``, as in GSM8K: the number right after the mark.
2. ``<response>72</response>`` or ``<answer>72</answer>``, closed or cut off: the last number between the tags. Of tags
   inside tags the innermost counts.
3. Without such a mark, or before a ``</response>`` that was never opened, the last line: the number right after its
   last ``=`` or after the word "answer" (with "is" or a colon), or a line that is nothing but a number.

A number somewhere in the text is no answer. With "any number matches", a completion that writes many numbers is paid
for guessing; with "the last number", one that repeats the question is paid wherever the question ends in the answer.
Under the rule above an unmarked echo of a question holds no answer. An echo inside the tags holds the question's last
number, which is right as often as a number drawn from the question (1.7% of GSM8K).

Numbers may have a sign touching them (``-``, ``−``, ``–``), commas every three digits, decimals, a currency before and
units after them. A percent sign is a unit: 50% reads 50. A fraction (3/4, 1 1/2) must be in lowest terms; an
unfinished division such as 240/12 would otherwise pass for its result. No arithmetic is done.

No number (None), rather than another reading: an exponent (1e5), misplaced commas (1,2,3), a date (1/2/2020), more than
``MOST_DIGITS`` digits, and a region with digits other than 0 to 9 or with control or formatting characters, such as
those that reverse the direction of writing: a reader would see another number.

The time is linear in the length of the text, and no text raises an exception.
"""

from __future__ import annotations

import math
import re
import unicodedata
from fractions import Fraction
from functools import lru_cache

from services.environments.word_problems.problem import ANSWER, RESPONSE

READ_CHARACTERS = 1 << 20  # the last ones of a completion
MOST_DIGITS = 1000  # of one number, with its commas and points; int() refuses 4,300

# Every repetition is possessive (*+, ++): no text makes the pattern try again.
_BETWEEN = r"[^\w.\n#]*+"  # signs, currency, spaces, stars of bold text
_MARK = re.compile(rf"(####(?={_BETWEEN}\.?[0-9])|</?(?:{RESPONSE}|{ANSWER})>)", re.IGNORECASE)
_SAID = re.compile(rf"\b{ANSWER}\b{_BETWEEN}(?:is\b)?{_BETWEEN}", re.IGNORECASE)
_SIGNS_BEFORE = re.compile(_BETWEEN)
_NUMBER = re.compile(
    r"(?:(?<![A-Za-z0-9_])|(?<=\bRs)|(?<=\bUSD)|(?<=\bEUR)|(?<=\bGBP)|(?<=\bINR))(?<![0-9][.,/])"
    r"(?:[0-9]++ (?=[0-9]++/[0-9]))?+(?:[0-9]++|(?<![.])\.[0-9]++)(?:[.,/][0-9]++)*+(?:[eE][+-]?[0-9]++)?+"
)
_PLAIN = re.compile(r"(?:([0-9]+) )?([0-9]{1,3}(?:,[0-9]{3})+|[0-9]*)(\.[0-9]+)?(?:/([0-9]+))?")
_MINUS = "-−–－﹣"
_CURRENCY = "$€£¥₹"
_POWERS = "²³"  # of units: 25 m²


@lru_cache(maxsize=64)  # components of a reward and the result of a game ask for the same one
def final_answer(text: str) -> Fraction | None:
    """Return the final answer of a completion by the rules above; None where it has none."""
    before, *marked = _MARK.split(text[-READ_CHARACTERS:])
    for mark, content in reversed(list(zip(marked[::2], marked[1::2], strict=True))):
        if mark == "####":
            line = content.partition("\n")[0]
            return _value(line, _right_after(line, 0))
        if mark.startswith("</"):
            continue
        last = None
        for last in _NUMBER.finditer(content):  # noqa: B007  (the last one is used)
            pass
        if last is not None or _is_deceptive(content):
            return _value(content, last)
    return _unmarked(before)


def same_number(one: Fraction | None, other: Fraction | None) -> bool:
    """Return whether both are numbers, and exactly equal."""
    return one is not None and one == other


def _unmarked(text: str) -> Fraction | None:
    line = text.rstrip().rpartition("\n")[2]
    found = _right_after(line, line.rfind("=") + 1) if "=" in line else None
    if found is None:
        for said in _SAID.finditer(line):
            found = _NUMBER.match(line, said.end()) or found
    if found is None:
        alone = _right_after(line, 0)
        found = alone if alone and not re.search(r"[\w#]", line[alone.end() :]) else None
    return _value(line, found)


def _right_after(line: str, start: int) -> re.Match[str] | None:
    signs = _SIGNS_BEFORE.match(line, start)
    return _NUMBER.match(line, signs.end()) if signs else None


def _value(region: str, found: re.Match[str] | None) -> Fraction | None:
    if found is None or len(found[0]) > MOST_DIGITS or _is_deceptive(region):
        return None
    plain = _PLAIN.fullmatch(found[0])
    if plain is None:
        return None
    whole, digits, decimals, below = plain.groups()
    if below is None:
        value = Fraction(f"{digits.replace(',', '') or '0'}{decimals or ''}")
    else:
        above, under = int(digits.replace(",", "") or "0"), int(below)
        if decimals or under < 2 or math.gcd(above, under) != 1:
            return None
        value = Fraction(above, under) + int(whole or 0)
    return -value if _is_negative(region, found.start()) else value


def _is_negative(region: str, start: int) -> bool:
    """Look for a minus that touches the number or its currency, and is no subtraction, range or hyphen."""
    before = region[:start]
    if before.endswith(tuple(_CURRENCY)):
        before = before[:-1]
    if not before.endswith(tuple(_MINUS)):
        return False
    touched = before[:-1]
    if touched[-1:].isalnum():
        return False
    left = touched.rstrip()[-1:]
    return not (left.isdigit() or left in (")", "%"))


def _is_deceptive(region: str) -> bool:
    """Return whether a region has digits other than 0 to 9, or characters that are not seen."""
    unusual = {letter for letter in set(region) if not (" " <= letter <= "~" or letter.isspace() or letter in _POWERS)}
    return not {unicodedata.category(letter) for letter in unusual}.isdisjoint(("Cc", "Cf", "Nd", "Nl", "No"))
