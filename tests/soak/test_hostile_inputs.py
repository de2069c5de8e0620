"""Two thousand hostile inputs of all kinds: no traceback, no hang, no line over 500 characters."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.contract import LONGEST_LINE, kinds
from tests.fuzz.runner import table, tally

INPUTS = 2000


@pytest.mark.timeout(7200)
def test_two_thousand_hostile_inputs_are_answered_in_one_line_or_used() -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    print("seed", seed)  # python -m tests.fuzz.runner COUNT SEED KIND runs them again
    found = kinds()
    tallies = [tally(kind, INPUTS // len(found) + 1, seed) for kind in found]
    print(table(tallies))
    findings = [f"{each.kind} {name}\n{outcome.detail}" for each in tallies for name, outcome in each.findings]
    assert not findings, "\n\n".join(findings)
    assert sum(each.cases for each in tallies) >= INPUTS
    assert max(each.longest for each in tallies) <= LONGEST_LINE
