"""The messages of a game, and who may read them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from services.environments.diplomacy.press.proposals import Proposal

EVERYBODY = "GLOBAL"  # the engine's name for all powers, as a recipient
# A recipient: what a power writes to itself, and reads before its next decisions.
NOTES = "NOTES"

_PER_ROUND, _PER_PHASE = 1000, 1_000_000
_TAG = re.compile(r"([<\[{])(?=[^\s<\[{]|[<\[{])")
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # Unicode categories


@dataclass(frozen=True, slots=True)
class Letter:
    """A message of one power to another one, or to all."""

    sender: str
    recipient: str  # a power, or ``EVERYBODY``
    text: str
    phase: str  # the engine's short name of the movement phase that it precedes
    round: int  # of the negotiation before that phase, from 0
    says: tuple[Proposal, ...] = ()  # what of the text the compact language has

    def is_for(self, power: str) -> bool:
        """Whether ``power`` may read it: its sender and its recipient may."""
        return power == self.sender or self.recipient in (power, EVERYBODY)


def sent_at(phase: int, round_: int, number: int) -> int:
    """The number that stands for the time of a letter in the engine's messages, which finds them by it.

    ``phase`` counts those of the game, ``round_`` those of the negotiation, ``number`` the letters of the round.
    """
    return (phase + 1) * _PER_PHASE + round_ * _PER_ROUND + number


def rounds_of(times: Sequence[int], phase: int) -> tuple[int, ...]:
    """The round of each message of a phase, from the times of all of them in ascending order.

    ``phase`` is as for ``sent_at``, whose numbers have their rounds. Other programs write times, in units of their own,
    and know no rounds: each message is then a round of its own.
    """
    rounds = tuple(time % _PER_PHASE // _PER_ROUND for time in times)
    counted: Counter[int] = Counter()
    for time, round_ in zip(times, rounds, strict=True):
        if time != sent_at(phase, round_, counted[round_]):
            return tuple(range(len(times)))
        counted[round_] += 1
    return rounds


def letters_for(letters: Iterable[Letter], power: str) -> tuple[Letter, ...]:
    """The letters that ``power`` may read, in their order."""
    return tuple(letter for letter in letters if letter.is_for(power))


def cleaned(text: str, longest: int) -> tuple[str, tuple[str, ...]]:
    """The text without characters that do not show, such as marks of direction, and with at most ``longest`` others.

    Line ends stay. Brackets that might begin a tag, a special token or a template's command are followed by a space.
    What is left can be shown, or be a part of a prompt, without changing what stands around it; cleaned again it stays
    the same. The second value is why it is another text than before: "repaired" for the characters, "too_long" for an
    end that is left out, or both.
    """
    shown = "".join(each for each in text if each == "\n" or unicodedata.category(each) not in _HIDDEN)
    harmless = _TAG.sub(r"\1 ", shown).strip()
    changes = (("repaired", harmless != text.strip()), ("too_long", len(harmless) > longest))
    return harmless[:longest].rstrip(), tuple(reason for reason, is_so in changes if is_so)
