"""Sentences that say a proposal, but with a hedge, a condition, a negation or another one's name before or after it.

Each way of doing so is tried on proposals of all kinds, which are understood without it.
"""

from __future__ import annotations

import pytest

from services.environments.diplomacy.press.english.understanding import understand
from tests.unit.services.environments.diplomacy.press.english.test_understanding import position

HERE = position()
SAID = (
    "let us have peace",
    "I propose a truce",
    "I will not attack you",
    "shall we be allies against Italy",
    "let us both stay out of Belgium",
    "I offer a DMZ in Belgium",
    "let us vote for a draw",
    "I will move Burgundy to Belgium",
    "my army in Burgundy will hold",
    "please move Munich to Tyrolia",
    "I agree to your proposal",
    "yes, let us have peace",
)
BEFORE = (
    *("perhaps", "maybe", "possibly,", "probably", "unless Italy moves,", "if Italy moves,", "if you agree:"),
    *(
        "provided that you agree,",
        "when Italy is gone,",
        "once Italy is gone,",
        "as soon as I can,",
        "as long as you hold,",
    ),
    *(
        "I wonder whether",
        "I doubt that",
        "I might say:",
        "I could say:",
        "you would like to hear:",
        "should you agree,",
    ),
    *(
        "I thought about this:",
        "in theory,",
        "suppose I say:",
        "I never said:",
        "it is not true that",
        "I refuse to say:",
    ),
    *("nobody believes me:", "it is impossible:", "Italy says:", "Italy told me:", "people say:", "according to Italy"),
    *("England wrote to me that", "you could hear me say", "I have not decided:", "Italy's letter:", "they claim that"),
)
AFTER = (
    *(
        ", perhaps",
        ", maybe",
        " if you leave Munich",
        " unless Italy moves",
        ", provided you leave Munich",
        " once you agree",
    ),
    *(
        " when Italy is gone",
        " as long as you hold",
        ", but only if you leave Munich",
        ", or maybe not",
        ", said Italy",
    ),
    *(", wrote the Italian", ", I suppose", ", I guess", ", I never said", ", on one condition", " in your dreams"),
    *(". Only if you leave Munich", ". But only if you hold", ". Just kidding", ". Not", ", depending on Italy"),
)
WITHIN = (
    "Let us {} have peace.", "We {} should have peace.", "I {} want peace.", "I {} propose a draw.", "I {} agree.",
    "I {} agree to a truce.", "I {} will move Burgundy to Belgium.", "I will {} move Burgundy to Belgium.",
    "My army in Burgundy will {} hold.", "Let us {} be allies against Italy.", "Let us {} stay out of Belgium.",
    "Yes, {}.", "Agreed, {} I accept.",
)  # fmt: skip
HEDGES = ("not", "never", "perhaps", "maybe", "possibly", "hardly", "no longer", "might", "could", "would", "probably")


def binding(text: str) -> list[str]:
    found = understand(text, HERE, "FRANCE", "GERMANY")
    return [proposal.text for proposal in found if proposal.kind != "REJECT"]


@pytest.mark.parametrize("said", SAID)
def test_without_a_hedge_a_proposal_is_understood(said: str) -> None:
    assert binding(said[0].upper() + said[1:] + ".")
    assert binding(f"Dear Germany, {said}.")


@pytest.mark.parametrize("said", SAID)
def test_a_hedge_before_or_after_a_proposal_leaves_nothing_of_it(said: str) -> None:
    letters = [f"{before[0].upper()}{before[1:]} {said}." for before in BEFORE]
    letters += [f"{said[0].upper()}{said[1:]}{after}." for after in AFTER]
    letters += [f"{before} {said}{after}" for before in BEFORE for after in AFTER]
    assert {text: found for text in letters if (found := binding(text))} == {}


def test_a_hedge_within_a_proposal_leaves_nothing_of_it() -> None:
    letters = [words.format(hedge) for words in WITHIN for hedge in HEDGES]
    assert {text: found for text in letters if (found := binding(text))} == {}


@pytest.mark.parametrize("said", SAID)
def test_words_of_others_bind_nothing(said: str) -> None:
    quotations = ['"{}."', "Italy: \u201c{}.\u201d", "'{}', as they put it.", "> {}.", "Italy wrote:\n{}.", "`{}`"]
    letters = [each.format(said[0].upper() + said[1:]) for each in quotations]
    assert {text: found for text in letters if (found := binding(text))} == {}


@pytest.mark.parametrize("yes", ["Yes", "Ok", "Okay", "Sure", "Agreed", "Deal", "Of course", "I agree", "I accept"])
def test_agreement_with_other_talk_after_it_accepts_nothing(yes: str) -> None:
    talk = (
        "Italy is a danger to you",
        "I will attack you now",
        "you are a liar",
        "but I hold Munich",
        "and Italy lies",
    )
    letters = [f"{yes}{comma} {each}." for comma in (",", "") for each in talk] + [f"{yes}?"]
    assert {text: found for text in letters if (found := binding(text))} == {}
    assert binding(f"{yes}, thank you.") == ["ACCEPT"]
    assert binding(f"{yes}, I will hold in Burgundy.") == ["ACCEPT", "WILL A BUR H"]
