from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.inference.token_masks import ConstraintError, SheetConstraint, SheetState, SlotConstraint

END, NEWLINE = 2, 9


def every_sheet(constraint: SheetConstraint) -> set[tuple[int, ...]]:
    """All sheets a constraint allows: enumerates combinations of alternatives, as the definition does."""
    sheets = set()
    for choice in itertools.product(*(range(len(slot.alternatives)) for slot in constraint.slots)):
        taken: set[int] = set()
        text: tuple[int, ...] = ()
        for slot, index in zip(constraint.slots, choice, strict=True):
            claim = slot.claims[index]
            if claim is not None:
                if claim in taken:
                    break
                taken.add(claim)
            text += slot.alternatives[index]
        else:
            sheets.add((*text, constraint.end_id))
    return sheets


def reachable(constraint: SheetConstraint) -> set[tuple[int, ...]]:
    """All sheets the state machine can write: tries every admissible id everywhere."""
    sheets = set()
    frontier: list[tuple[int, ...]] = [()]
    while frontier:
        choices = frontier.pop()
        state = SheetState(constraint)
        text = state.forced()
        for token in choices:
            state.advance(token)
            text += [token, *state.forced()]
        if state.finished:
            sheets.add(tuple(text))
            continue
        admissible = state.admissible().tolist()
        assert len(admissible) >= 2
        assert admissible == sorted(set(admissible))
        frontier += [(*choices, token) for token in admissible]
    return sheets


bodies = st.lists(st.integers(10, 13), min_size=1, max_size=3).map(tuple)


@st.composite
def slots(draw: st.DrawFn, with_claims: bool) -> SlotConstraint:
    alternatives = draw(st.lists(bodies, min_size=1, max_size=5, unique=True))
    claims = [draw(st.none() | st.integers(0, 2)) if with_claims else None for _ in alternatives]
    # An alternative without a claim, such as WAIVE, keeps every slot possible.
    return SlotConstraint((*((*body, NEWLINE) for body in alternatives), (14, NEWLINE)), (*claims, None))


@given(st.lists(slots(with_claims=True), max_size=3))
def test_reachable_sheets_are_exactly_those_of_the_definition(drawn: list[SlotConstraint]) -> None:
    constraint = SheetConstraint(tuple(drawn), END)
    expected = every_sheet(constraint)
    assert reachable(constraint) == expected
    assert max(map(len, expected)) <= constraint.longest
    assert max(map(max, expected)) <= constraint.highest_id


def test_longest_is_exact_without_claims() -> None:
    slot = SlotConstraint(((5, 6, 7, NEWLINE), (5, NEWLINE)), (None, None))
    assert SheetConstraint((slot, slot), END).longest == 9


def test_sheets_without_choices_are_forced_to_the_end() -> None:
    only = SlotConstraint(((5, 6, NEWLINE),), (None,))
    state = SheetState(SheetConstraint((only, only), END))
    assert not state.finished
    assert state.forced() == [5, 6, NEWLINE, 5, 6, NEWLINE, END]
    assert state.finished
    empty = SheetState(SheetConstraint((), END))
    assert empty.forced() == [END]
    assert empty.finished


def test_a_claim_turns_a_later_choice_into_a_forced_run() -> None:
    slot = SlotConstraint(((5, NEWLINE), (6, NEWLINE)), (0, 1))
    state = SheetState(SheetConstraint((slot, slot), END))
    assert state.forced() == []
    assert state.admissible().tolist() == [5, 6]
    state.advance(6)
    assert state.forced() == [NEWLINE, 5, NEWLINE, END]
    assert state.finished


def test_alternatives_must_be_prefix_free() -> None:
    with pytest.raises(ConstraintError, match="prefix"):
        SheetState(SheetConstraint((SlotConstraint(((5, 6), (5, 6, 7)), (None, None)),), END))
    with pytest.raises(ConstraintError, match="prefix"):
        SheetState(SheetConstraint((SlotConstraint(((5, 6), (5, 6)), (None, None)),), END))
    with pytest.raises(ConstraintError, match="empty"):
        SheetState(SheetConstraint((SlotConstraint(((),), (None,)),), END))
    with pytest.raises(ConstraintError, match="2 alternatives but 1 claims"):
        SlotConstraint(((5,), (6,)), (None,))


def test_inadmissible_tokens_are_refused() -> None:
    slot = SlotConstraint(((5, NEWLINE), (6, NEWLINE)), (0, 0))
    state = SheetState(SheetConstraint((slot,), END))
    with pytest.raises(ConstraintError, match="token 7 is not admissible"):
        state.advance(7)
    state.advance(5)
    with pytest.raises(ConstraintError, match="complete"):
        state.admissible()
    with pytest.raises(ConstraintError, match="token 5 is not admissible"):
        state.advance(5)


def test_claims_that_leave_no_alternative_are_an_error() -> None:
    slot = SlotConstraint(((5, NEWLINE), (6, NEWLINE)), (0, 0))
    state = SheetState(SheetConstraint((slot, slot), END))
    with pytest.raises(ConstraintError, match="no alternative"):
        state.advance(5)


def test_constraints_are_hashable_values() -> None:
    rng = random.Random(0)
    alternatives = tuple((token, NEWLINE) for token in rng.sample(range(10, 99), 20))
    first = SheetConstraint((SlotConstraint(alternatives, (None,) * 20),), END)
    second = SheetConstraint((SlotConstraint((*alternatives[:7], *alternatives[7:]), (None,) * 20),), END)
    assert first == second
    assert hash(first) == hash(second)


def test_a_copy_goes_its_own_way() -> None:
    slot = SlotConstraint(((5, 1, 9), (5, 2, 9), (5, 3, 9)), (1, 2, 3))
    state = SheetState(SheetConstraint((slot, slot), END))
    other = state.copy()
    assert state.forced() == other.forced() == [5]
    state.advance(1)
    assert other.admissible().tolist() == [1, 2, 3]
    other.advance(2)
    assert state.admissible().tolist() == [2, 3]
    assert other.admissible().tolist() == [1, 3]
    assert state.copy().forced() == state.forced() == [9, 5]
