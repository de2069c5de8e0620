"""What letters in plain English mean in the compact press language, by rules.

Rules find what is said plainly: a proposal with its usual words, an order whose units and provinces are named, or that
only one legal order fits. What they do not find is no proposal, so no power is bound by a sentence that was misread as
one more easily than they miss one. Sentences with a negation, reports of others and questions about the past are left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from services.environments.diplomacy.position import Position
from services.environments.diplomacy.press.deeds import deed
from services.environments.diplomacy.press.english.names import (
    PEOPLES,
    powers_named,
    province_names,
    provinces_named,
)
from services.environments.diplomacy.press.proposals import Proposal, read

MOST_READ = 2000
_NEGATION = re.compile(r"\b(not|never|no|neither of them|cannot|can't|won't|don't|doesn't|wouldn't|shouldn't)\b")
_NOT_EACH_OTHER = re.compile(
    r"\b(not|never|won't|don't) (to )?(attack|move against|fight) (each other|one another|you)\b"
)
_REFUSAL = re.compile(
    r"\b(can't|cannot|can not|won't|will not|refuse|do not|don't) (promise|agree|want|accept|be able)\b"
)
_PEACE = re.compile(r"\b(peace|truce|armistice|non-?aggression|leave (each other|one another) alone)\b")
_ALLY = re.compile(
    r"\b(ally|allies|alliance|team up|work together|join forces|fight|attack)\b.*?(?:\bagainst )?(?:the )?"
)
_DMZ = re.compile(
    r"\b(dmz|demilitari[sz]ed?|stay out of|keep out of|(keep|leave) .*\b(empty|free)\b"
    r"|neither of us (should|shall|will) (enter|move))"
)
_DRAW = re.compile(r"\b(draw)\b")
_ACCEPT = re.compile(
    r"^(yes|agreed|i agree|i accept|accepted|it's a deal|deal|ok|okay|sure|(that )?sounds good|of course|gladly)"
    r"(?=$|[,.!]| (to|with) (that|this|you)\b)"
)
_ON_CONDITION = re.compile(r"\b(but|if|unless|first|however|when|once)\b")
_REJECT = re.compile(
    r"^(no(,|$| thank| deal)|(sorry, )?(i (refuse|decline|reject|disagree|am not interested)|rejected|not interested)"
    r"|i('m| am) afraid (i |that |not|we )|i (cannot|can't|can not) (agree|accept))"
)
_WILL = re.compile(r"\b(will|'ll|am going to|'m going to|is going to|shall|intend to|promise to|plan to)\b")
_OWN_WILL = re.compile(
    r"\b(i|we) ?('ll|'m|will|am|are|shall|intend|promise|plan)\b|\b(my|our)\b.*\b(will|shall|is going to)\b"
)
_ASK = re.compile(r"^(please|can you|could you|would you|will you)\b|\b(i ask you to|i need you to|i want you to)\b")
_PAST = re.compile(r"\b(last (year|spring|fall|autumn)|told|said|did|was|were|wonder|why|heard|served)\b")
_KINDS = (
    ("S", re.compile(r"\bsupport\b")),
    ("C", re.compile(r"(?<!by )\bconvoy\b")),
    ("H", re.compile(r"\b(hold|stay|keep my|remain)\b")),
    ("-", re.compile(r"\b(move|send|go|march|sail|advance|take|order)\b|\bto\b")),
)
_COMPACT = re.compile(r"\b[AF] [A-Z]{3}(?:/[A-Z]{2})? (?:H\b|[-SC] [A-Z /-]+)")


def understand(text: str, position: Position, sender: str, recipient: str) -> tuple[Proposal, ...]:
    """What a letter proposes, declares or answers: lines of the compact language, and sentences of plain English.

    Only the first ``MOST_READ`` characters are read: a file may hold letters of any length.
    """
    found: dict[Proposal, None] = {}
    for line in text[:MOST_READ].split("\n"):
        if (exact := read(line.strip())) is not None:
            if _is_possible(exact, position, sender, recipient):
                found[exact] = None
        else:
            for sentence in re.split(r"(?<=[.!?;])\s+(?=[A-Z\"'])|\s*,? and (?=stay|keep|i |I )", line):
                found.update(dict.fromkeys(_meant(sentence.strip(), position, sender, recipient)))
    return tuple(found)


def _is_possible(proposal: Proposal, position: Position, sender: str, recipient: str) -> bool:
    """Whether its province is one of the map's, and its order a legal one of the power that would give it."""
    if proposal.kind == "DMZ":
        return proposal.about in dict(province_names()).values()
    if proposal.kind in ("WILL", "ASK"):
        place = proposal.about[2:].partition(" ")[0]
        giver = sender if proposal.kind == "WILL" else recipient
        return place in position.orderable.get(giver, ()) and proposal.about in position.legal[place]
    return True


def _meant(sentence: str, position: Position, sender: str, recipient: str) -> Iterator[Proposal]:
    said = sentence.lower().rstrip(" .!?;").replace("\u2019", "'")
    if not said:
        return
    if _REJECT.search(said):
        yield Proposal("REJECT")
        return
    if _ACCEPT.search(said):
        if not (_NEGATION.search(said) or _ON_CONDITION.search(said)):
            yield Proposal("ACCEPT")
        return
    third = [power for power in powers_named(said) if power not in (sender, recipient)]
    if _NOT_EACH_OTHER.search(said):
        if not (third or _REFUSAL.search(said)):
            yield Proposal("PEACE")
        return
    if _PAST.search(said):
        return
    provinces = provinces_named(said)
    if _DMZ.search(said):
        if third or _REFUSAL.search(said) or re.search(r"\b(not|never|won't|don't)\b", said):
            return
        yield from (Proposal("DMZ", province) for province in provinces)
        return
    if _NEGATION.search(said):
        return
    if _ALLY.search(said) and third and _is_joint(said, third[-1]):
        yield Proposal("ALLY", third[-1])
        return
    if _PEACE.search(said):
        if not third:
            yield Proposal("PEACE")
        return
    if _DRAW.search(said):
        yield Proposal("DRAW")
        return
    asks = _ASK.search(said)
    if asks or (_WILL.search(said) and not third and _is_own(said, provinces, position, sender)):
        giver, other = (recipient, sender) if asks else (sender, recipient)
        order = _order(sentence, said, provinces, position, giver, other)
        if order is not None:
            yield Proposal("ASK" if asks else "WILL", order)


def _is_joint(said: str, third: str) -> bool:
    """Whether the sentence is about the two who write, not about others."""
    together = re.search(r"\b(let us|let's|we|us|me|together|our|join)\b", said)
    aimed = any(f"against {the}{name}" in said or f"fight {the}{name}" in said or f"attack {the}{name}" in said
                for name in PEOPLES[third] for the in ("", "the "))  # fmt: skip
    return bool(together) and aimed


def _is_own(said: str, provinces: list[str], position: Position, sender: str) -> bool:
    """Whether a sentence speaks of what its writer does: it says so, or begins with one of the writer's units."""
    if _OWN_WILL.search(said):
        return True
    own = {unit[2:5] for unit in position.units.get(sender, ())}
    return bool(provinces) and provinces[0] in own and not re.match(r"(you|they|he|she|it)\b", said)


def _order(sentence: str, said: str, provinces: list[str], position: Position, giver: str, other: str) -> str | None:
    """The only legal order of ``giver`` that the sentence can mean; None for none or several."""
    legal = [order for place in position.orderable.get(giver, ()) for order in position.legal[place]]
    if (written := _COMPACT.search(sentence)) is not None:
        compact = written[0].strip()
        return compact if compact in legal else None
    kind = next((kind for kind, words in _KINDS if words.search(said)), None)
    if kind is None or not provinces:
        return None
    fitting = [order for order in legal if _fits(order, kind, provinces, position, giver, other, said)]
    if not fitting:
        return None
    fitting = [order for order in fitting if deed(order, position, giver).helped == other] or fitting
    fewest = min(len(_named(order)) for order in fitting)
    shortest = {order for order in fitting if len(_named(order)) == fewest}
    plain = {order for order in shortest if "/" not in order.split(" ")[-1]} or shortest
    return plain.pop() if len(plain) == 1 else None


def _fits(order: str, kind: str, provinces: list[str], position: Position, giver: str, other: str, said: str) -> bool:
    words = order.split(" ")
    if words[2] != kind or order.endswith(" VIA") != (kind == "-" and "by convoy" in said):
        return False
    named = _named(order)
    if not set(provinces) <= set(named):
        return False
    done = deed(order, position, giver)
    if kind in "SC":
        if done.helped not in (None, other):
            return False
        goal = done.goal
        directed = re.search(r"\b(to|into|towards)\b", said) is not None
        if directed and goal != _province_after(said):
            return False
        return directed or goal is None
    return kind != "-" or (done.goal in provinces and done.goal == _province_after(said))


def _province_after(said: str) -> str | None:
    """The first province named after ``to``, ``into`` or ``towards``."""
    for found in re.finditer(r"\b(?:to|into|towards)\b", said):
        rest = re.sub(r"^(the|a|an)\s+", "", said[found.end() :].strip())
        for name, province in province_names():
            if rest.startswith(name):
                return province
    return None


def _named(order: str) -> list[str]:
    return [word[:3] for word in order.split(" ") if len(word) >= 3 and word != "VIA"]
