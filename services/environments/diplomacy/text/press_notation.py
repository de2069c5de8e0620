"""Press in compact notation: what a power may read, as words behind the position, and the letters that it writes.

Example, before the second round of letters::

    ...; TO ENGLAND DMZ ENG; FROM ENGLAND PEACE; GLOBAL ITALY PEACE; HOLDS ENGLAND DMZ ENG; ENGLAND KEPT 3; LETTERS 2

``FROM`` and ``TO`` are the letters of this negotiation, ``GLOBAL`` those of others to all powers, ``OWES`` what the
reader has promised to a power and ``HOLDS`` what it has been promised, then come the promises to it that were kept and
broken in earlier phases. Only what letters say in the compact language is written, so that no text of a letter gets
into a prompt. Beyond ``MOST_ITEMS`` in all the longest letters lose their last lines, down to ``MOST_SAID``, then the
oldest letters are left out; their promises stay. If the promises alone are more, each partner keeps as many of the
first ones as all can have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from services.environments.diplomacy.press.ledger import Account
from services.environments.diplomacy.press.letters import EVERYBODY
from services.environments.diplomacy.press.proposals import MARKS, SILENCE
from services.environments.diplomacy.press.sayable import partners, sayable, sayable_to_all
from services.environments.diplomacy.press.view import PressPosition
from services.environments.playing import Slot

MOST_ITEMS = 36  # letters, promises and accounts in a prompt: some 250 words
MOST_SAID = 6  # lines that each letter may have in a prompt that is too short for all
ORDERS = "ORDERS"  # the end of a prompt for orders
_MOST = 34  # of the numbers that prompts have words for
_FRAME = ("FROM", "TO", "OWES", "HOLDS", "KEPT", "BROKE", "LETTERS")


def press_words() -> tuple[str, ...]:
    """The words of press that prompts without it lack."""
    return tuple(sorted((*MARKS, *_FRAME)))


def with_letters(prompt: str, position: PressPosition, *, public: bool) -> str:
    """A prompt that ends with ``ORDERS``, with what the reader knows of the press before its end.

    Without ``public`` letters to all powers are left out, for which a tokenizer may lack the word.
    """
    press = position.press
    end = ORDERS if press.writes is None else f"LETTERS {press.writes + 1}"
    kept = _shared_out(list(_promised(position)))
    room = MOST_ITEMS - len(kept)
    letters = _said(position, public=public)
    each = max(map(len, letters), default=0)
    while each > MOST_SAID and sum(min(len(lines), each) for lines in letters) > room:
        each -= 1
    said = [line for lines in letters for line in lines[:each]]
    latest = said[max(0, len(said) - room) :]
    return "; ".join((prompt.removesuffix(ORDERS).rstrip("; "), *latest, *kept, end))


def _said(position: PressPosition, *, public: bool) -> list[list[str]]:
    """The lines of each letter of this negotiation that the reader may read, the oldest letter first."""
    press = position.press
    letters = []
    for letter in press.letters:
        if letter.recipient == EVERYBODY and not public:
            continue
        if letter.sender == press.reader:
            mark, other = "TO", letter.recipient
        else:
            mark, other = EVERYBODY if letter.recipient == EVERYBODY else "FROM", letter.sender
        letters.append([f"{mark} {other} {proposal.text}" for proposal in letter.says])
    return letters


def _promised(position: PressPosition) -> Iterator[tuple[str, str]]:
    """The partner and the words of each promise, then those of each account."""
    press = position.press
    for promise in press.promises:
        mark, other = ("OWES", promise.partner) if promise.giver == press.reader else ("HOLDS", promise.giver)
        yield other, f"{mark} {other} {promise.text}"
    for partner, account in press.accounts.items():
        yield partner, f"{partner} {account_words(account)}".rstrip()


def _shared_out(items: Sequence[tuple[str, str]]) -> list[str]:
    """The words of at most ``MOST_ITEMS`` items: of each partner the first ones, as many as all can have."""
    counts = Counter(partner for partner, _ in items)
    each = max(counts.values(), default=0)
    while sum(min(count, each) for count in counts.values()) > MOST_ITEMS:
        each -= 1
    taken: Counter[str] = Counter()
    words = []
    for partner, text in items:
        taken[partner] += 1
        if taken[partner] <= each:
            words.append(text)
    return words


def account_words(account: Account) -> str:
    """How many promises were kept and broken, as in ``KEPT 3 BROKE 1``; empty if none was."""
    counts = (("KEPT", account.kept), ("BROKE", account.broken))
    return " ".join(f"{word} {min(count, _MOST)}" for word, count in counts if count)


def letter_slots(position: PressPosition, *, public: bool) -> tuple[Slot, ...]:
    """One letter to each other power that is still there and, if ``public``, one to all where these are delivered.

    Each is its recipient, then a line of the compact language that fits a letter, and what is left of the budget.
    """
    press = position.press
    lines = {
        partner: sayable(position, press.reader, partner, answers=partner in press.waiting)
        for partner in partners(position, press.reader)
    }
    if public and press.public:
        lines[EVERYBODY] = sayable_to_all(position, press.reader)
    room = press.longest if press.left is None else min(press.longest, press.left)
    lines = {
        other: tuple(line for line in said if line == SILENCE or len(line) <= room) for other, said in lines.items()
    }
    return tuple(
        Slot(tuple(f"{partner} {line}" for line in said), (None,) * len(said)) for partner, said in lines.items()
    )


def written_letters(actions: Sequence[str], position: PressPosition, *, public: bool) -> tuple[str, ...]:
    """An alternative of each of ``letter_slots``: the letters among the actions, and ``PASS`` to the other powers."""
    given = set(actions)
    return tuple(
        next((line for line in slot.alternatives if line in given), slot.alternatives[0])
        for slot in letter_slots(position, public=public)
    )
