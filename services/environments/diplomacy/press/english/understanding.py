"""What letters in plain English mean in the compact press language, by rules.

Rules find what is said plainly: a proposal in words that propose it, an order whose units and provinces are named or
that only one legal order fits, an answer with nothing else after it. All the rest is no proposal, since a sentence that
is missed costs a power less than one that binds it to what it did not say. Nothing is taken from a sentence with a
hedge, a condition, a negation, a quotation or the words of others, but refusals. Irony is not seen.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from services.environments.diplomacy.position import Position
from services.environments.diplomacy.press.deeds import is_against
from services.environments.diplomacy.press.english.answers import accepted, refused
from services.environments.diplomacy.press.english.joint_proposals import alone, proposed
from services.environments.diplomacy.press.english.names import is_province, marked
from services.environments.diplomacy.press.english.order_words import is_of_later, ordered, with_marked_orders
from services.environments.diplomacy.press.english.sentences import (
    binds,
    clauses,
    expanded,
    is_negated,
    is_threat,
    simplified,
)
from services.environments.diplomacy.press.english.statements import statements
from services.environments.diplomacy.press.proposals import ANSWERS, Proposal

MOST_READ = 2000


def understand(text: str, position: Position, sender: str, recipient: str) -> tuple[Proposal, ...]:
    """What a letter proposes, declares or answers: lines of the compact language, and sentences of plain English.

    Only the first ``MOST_READ`` characters are read: a file may hold letters of any length. A letter that also rejects
    in plain English accepts nothing, one that also threatens its reader with an attack offers no peace and no alliance
    either, and a unit that is given several orders in plain English is given none.
    """
    found: dict[Proposal, None] = {}
    in_english: set[Proposal] = set()
    is_hostile = False
    text = re.sub("[$#@]", " ", text[:MOST_READ])  # the marks of orders, provinces and powers below
    for each in statements(text, sender, recipient):
        if isinstance(each, Proposal):
            if _is_possible(each, position, sender, recipient):
                found[each] = None
            continue
        said, orders = with_marked_orders(each.text)
        said = marked(expanded(said), sender, recipient)
        if binds(said):
            said = simplified(said)
            is_hostile |= is_threat(said) and not is_negated(said)
            ending = each.text.rstrip()[-1:]
            for one in _meant(said, ending, orders, position, sender, recipient):
                if one.kind not in ANSWERS or one.kind in each.answers:
                    in_english.add(one)
                    found[one] = None
    dropped = _contradictory(in_english, is_hostile=is_hostile)
    return tuple(each for each in found if each not in dropped)


def _contradictory(said: set[Proposal], *, is_hostile: bool) -> set[Proposal]:
    """What is not meant beside other words: several orders to a unit, a yes beside a no, peace with a threat."""
    found: set[Proposal] = set()
    for kind in ("WILL", "ASK"):
        orders = [each for each in said if each.kind == kind]
        units = Counter(each.about[:5] for each in orders)
        found |= {each for each in orders if units[each.about[:5]] > 1}
    if is_hostile or Proposal("REJECT") in said:
        found.add(Proposal("ACCEPT"))
    return found | ({each for each in said if each.kind in ("PEACE", "ALLY")} if is_hostile else set())


def _is_possible(proposal: Proposal, position: Position, sender: str, recipient: str) -> bool:
    """Whether its province is one of the map's, and its order a legal one of the power that would give it."""
    if proposal.kind == "DMZ":
        return is_province(proposal.about)
    if proposal.kind in ("WILL", "ASK"):
        place = proposal.about[2:].partition(" ")[0]
        giver = sender if proposal.kind == "WILL" else recipient
        return place in position.orderable.get(giver, ()) and proposal.about in position.legal[place]
    return True


def _meant(
    said: str, ending: str, orders: list[str], position: Position, sender: str, recipient: str
) -> Iterator[Proposal]:
    """What a simplified sentence means, which ended with ``ending``; ``orders`` are those in compact notation."""
    rejects, said = refused(said)
    if rejects and (said or ending != "?"):
        yield Proposal("REJECT")
    if is_negated(said):
        return
    accepts, said = accepted(said)
    parts = clauses(said)
    if ending == "?" and len(parts) == 1 and re.match(r"(?:i|we|my|our)\b", parts[0]):
        return  # "I want peace?" asks what another one has said
    found: list[list[Proposal]] = [[] for _ in parts]
    if not is_of_later(said, position):
        found = [list(proposed(part)) for part in parts]
        if len(parts) == 1 and not found[0] and ending != ",":
            found[0] += alone(parts[0])
        for part, own in zip(parts, found, strict=True):
            if (order := ordered(part, orders, position, sender, recipient)) is not None:
                own.append(order)
    meant = [each for own in found for each in own]
    is_agreed = bool(found[0]) if found else ending != "?"
    is_hostile = any(each.kind == "WILL" and is_against(each.about, position, sender, recipient) for each in meant)
    if accepts and is_agreed and not (rejects or is_hostile):
        yield Proposal("ACCEPT")
    yield from meant
