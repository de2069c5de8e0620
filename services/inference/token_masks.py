"""Legal order sheets as token masks: plain data that can be sent, and a state machine over it.

A sheet is a sequence of slots, then the end id. A slot is written as one of its alternatives: token sequences that end
in a terminator, so none is a prefix of another. Where only one token can follow, it is forced and needs no model call.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

Alternatives = tuple[tuple[int, ...], ...]
Claims = tuple[int | None, ...]
Entries = list[tuple[tuple[int, ...], int | None]]  # alternatives with their claims

_TRIES_KEPT = 16_384  # units keep their legal orders for many phases; a full league has some ten thousand slots


class ConstraintError(ValueError):
    """A sheet that cannot be written: an empty slot, a prefix conflict, or a token that is not admissible."""


@dataclass(frozen=True, slots=True)
class SlotConstraint:
    """One thing to write; an alternative's claim, if any, excludes those with the same claim in later slots."""

    alternatives: Alternatives
    claims: Claims
    note: tuple[int, ...] = ()  # tokens before it, all forced

    def __post_init__(self) -> None:
        if len(self.alternatives) != len(self.claims):
            raise ConstraintError(f"{len(self.alternatives)} alternatives but {len(self.claims)} claims")


@dataclass(frozen=True, slots=True)
class SheetConstraint:
    """All that one decision may write: the slots in order, then ``end_id``."""

    slots: tuple[SlotConstraint, ...]
    end_id: int

    @property
    def longest(self) -> int:
        """Tokens of the longest sheet, end id included; an upper bound where there are claims."""
        return 1 + sum(len(slot.note) + _trie(slot.alternatives, slot.claims).longest for slot in self.slots)

    @property
    def highest_id(self) -> int:
        """The largest token id that can be written."""
        written = (max(_trie(slot.alternatives, slot.claims).highest, *slot.note, 0) for slot in self.slots)
        return max((self.end_id, *written))


encode_sheet = msgspec.msgpack.Encoder().encode  # a sheet as bytes, for an engine in another process
decode_sheet = msgspec.msgpack.Decoder(SheetConstraint).decode  # raises msgspec.DecodeError for any other bytes

_NO_IDS: NDArray[np.int32] = np.empty(0, np.int32)


class _Node:
    """A node of a path-compressed trie: ``run``, then a choice or the slot's end. Children are made when entered."""

    __slots__ = ("_branches", "_children", "_start", "admissible", "claim", "run")

    def __init__(self, entries: Entries, start: int) -> None:  # sorted entries that share their first tokens
        first, last = entries[0][0], entries[-1][0]
        end = start
        while end < len(first) and end < len(last) and first[end] == last[end]:
            end += 1
        self.run = first[start:end]
        self.admissible = _NO_IDS  # ascending, at least 2; empty at a leaf
        self.claim: int | None = None  # the claim of the alternative that ends here; leaves only
        self._start = end + 1  # the children's start
        self._branches: dict[int, Entries] = {}  # by admissible id
        self._children: dict[int, _Node] = {}
        if len(entries) == 1:
            self.claim = entries[0][1]
            return
        for entry in entries:
            self._branches.setdefault(entry[0][end], []).append(entry)
        self.admissible = np.fromiter(self._branches, np.int32, len(self._branches))
        self.admissible.flags.writeable = False

    def child(self, token: int) -> _Node | None:
        """Return the node after an admissible id; None after any other."""
        node = self._children.get(token)
        if node is None and token in self._branches:
            node = self._children[token] = _Node(self._branches[token], self._start)
        return node


@dataclass(frozen=True, slots=True, eq=False)
class _Trie:
    root: _Node
    claims: frozenset[int]
    longest: int
    highest: int


@lru_cache(maxsize=_TRIES_KEPT)
def _trie(alternatives: Alternatives, claims: Claims) -> _Trie:
    if not alternatives:
        raise ConstraintError("a slot has no alternative (left): give it one without a claim, such as WAIVE")
    entries = sorted(zip(alternatives, claims, strict=True), key=lambda entry: entry[0])
    if not entries[0][0]:
        raise ConstraintError("an alternative is empty")
    for (shorter, _), (longer, _) in pairwise(entries):
        if longer[: len(shorter)] == shorter:
            raise ConstraintError(f"alternative {shorter} is a prefix of {longer}: end each with a terminator")
    return _Trie(
        root=_Node(entries, 0),
        claims=frozenset(claim for claim in claims if claim is not None),
        longest=max(map(len, alternatives)),
        highest=max(map(max, alternatives)),
    )


class SheetState:
    """The state of one sheet: take ``forced()``; until ``finished``, ``advance()`` with one of ``admissible()``."""

    __slots__ = ("_forced", "_next_slot", "_node", "_sheet", "_taken")

    def __init__(self, constraint: SheetConstraint) -> None:
        self._sheet = constraint
        self._next_slot = 0
        self._taken: set[int] = set()
        self._forced: list[int] = []
        self._node: _Node | None = None  # where a choice is due; None at the end of the sheet
        self._open_slots()

    def copy(self) -> SheetState:
        """Return an independent state at the same place."""
        other = SheetState.__new__(SheetState)
        other._sheet, other._next_slot, other._node = self._sheet, self._next_slot, self._node
        other._taken, other._forced = set(self._taken), list(self._forced)
        return other

    @property
    def finished(self) -> bool:
        """Whether no choice is left and the last forced run was taken."""
        return self._node is None and not self._forced

    @property
    def has_choice(self) -> bool:
        """Whether a choice is left, forced tokens aside."""
        return self._node is not None

    def forced(self) -> list[int]:
        """Take the tokens that follow without a choice; a second call returns none until ``advance``."""
        run, self._forced = self._forced, []
        return run

    def admissible(self) -> NDArray[np.int32]:
        """Return the ids to choose from, ascending, at least 2; read-only."""
        if self._node is None:
            raise ConstraintError("the sheet is complete: nothing is left to choose")
        return self._node.admissible

    def advance(self, token_id: int) -> None:
        """Write ``token_id``. Raises ``ConstraintError`` if it is inadmissible or leaves a later slot no choice."""
        child = self._node.child(token_id) if self._node is not None else None
        if child is None:
            raise ConstraintError(f"token {token_id} is not admissible here")
        if not self._enter(child):
            self._open_slots()

    def _enter(self, node: _Node) -> bool:
        """Follow a node's run; True where it ends in a choice, False where it ends the slot."""
        self._forced.extend(node.run)
        if len(node.admissible):  # a choice
            self._node = node
            return True
        if node.claim is not None:
            self._taken.add(node.claim)
        return False

    def _open_slots(self) -> None:
        """Go on to the next slot with a choice, or to the end of the sheet."""
        slots = self._sheet.slots
        while self._next_slot < len(slots):
            slot = slots[self._next_slot]
            self._next_slot += 1
            self._forced.extend(slot.note)
            trie = _trie(slot.alternatives, slot.claims)
            if not self._taken.isdisjoint(trie.claims):
                free = [claim not in self._taken for claim in slot.claims]
                trie = _trie(tuple(compress(slot.alternatives, free)), tuple(compress(slot.claims, free)))
            if self._enter(trie.root):
                return
        self._node = None
        self._forced.append(self._sheet.end_id)
