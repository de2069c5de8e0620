"""The compact press language as plain English, and by rules from it.

Rules find what is said plainly: a proposal with its usual words, an order whose units and provinces are named, or that
only one legal order fits. What they do not find is no proposal, so no power is bound by a sentence that was misread as
one more easily than they miss one. Sentences with a negation, reports of others and questions about the past are left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.press.deeds import deed
from services.environments.diplomacy.press.proposals import Proposal, read
from services.environments.diplomacy.rules.legal import standard_map

MOST_READ = 2000
_PEOPLES = {
    "AUSTRIA": ("austria-hungary", "austrians", "austrian", "austria"),
    "ENGLAND": ("england", "english", "britain", "british"),
    "FRANCE": ("france", "french"),
    "GERMANY": ("germany", "germans", "german"),
    "ITALY": ("italy", "italians", "italian"),
    "RUSSIA": ("russia", "russians", "russian"),
    "TURKEY": ("turkey", "turks", "turkish", "ottomans"),
}
_OTHER_NAMES = {
    "channel": "ENG", "the med": "WES", "tyrol": "TYR", "romania": "RUM", "st. petersburg": "STP", "petersburg": "STP",
    "mid-atlantic": "MAO", "mid atlantic": "MAO", "gulf of lyons": "LYO", "lyon": "LYO", "bothnia": "BOT",
    "heligoland": "HEL", "heligoland bight": "HEL", "tunisia": "TUN", "marseille": "MAR", "munchen": "MUN",
    "norwegian": "NWG", "tyrrhenian": "TYS", "ionian": "ION", "adriatic": "ADR", "aegean": "AEG", "baltic": "BAL",
    "barents": "BAR",
}  # fmt: skip
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


def say(proposal: Proposal, position: Position, sender: str) -> str:
    """The proposal as an English sentence of ``sender``."""
    match proposal.kind:
        case "PEACE":
            return "Let us have peace until the end of the year."
        case "ALLY":
            return f"Let us be allies against {proposal.about.title()} until the end of the year."
        case "DMZ":
            return f"Let us both stay out of {_name(proposal.about)} until the end of the year."
        case "DRAW":
            return "Let us vote for a draw."
        case "WILL":
            return f"I will {_ordered(proposal.about, position, sender)}."
        case "ASK":
            return f"Please {_ordered(proposal.about, position, sender)}."
        case "ACCEPT":
            return "I agree."
    return "No, I do not agree."


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
        return proposal.about in dict(_names()).values()
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
    third = [power for power in _powers(said) if power not in (sender, recipient)]
    if _NOT_EACH_OTHER.search(said):
        if not (third or _REFUSAL.search(said)):
            yield Proposal("PEACE")
        return
    if _PAST.search(said):
        return
    provinces = _provinces(said)
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
                for name in _PEOPLES[third] for the in ("", "the "))  # fmt: skip
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
        for name, province in _names():
            if rest.startswith(name):
                return province
    return None


def _named(order: str) -> list[str]:
    return [word[:3] for word in order.split(" ") if len(word) >= 3 and word != "VIA"]


def _powers(said: str) -> list[str]:
    """The powers that are named, in the order in which they are; in names of provinces they do not count."""
    for name, _ in _names():
        said = said.replace(name, " " * len(name))
    places = [
        (min(at for name in names if (at := said.find(name)) >= 0), power)
        for power, names in _PEOPLES.items()
        if any(re.search(rf"\b{name}\b", said) for name in names)
    ]
    return [power for _, power in sorted(places)]


def _provinces(said: str) -> list[str]:
    """The provinces that are named, in the order in which they are; longer names first, each letter used once."""
    found: list[tuple[int, str]] = []
    rest = said
    for name, province in _names():
        for match in re.finditer(rf"\b{re.escape(name)}\b", rest):
            found.append((match.start(), province))
            rest = rest[: match.start()] + " " * len(match[0]) + rest[match.end() :]
    return list(dict.fromkeys(province for _, province in sorted(found)))


@cache
def _names() -> tuple[tuple[str, str], ...]:
    """Names of provinces in lower case with their abbreviations, longest first."""
    board = standard_map()
    full = {name.lower(): place for name, place in board.loc_name.items() if "/" not in place and place != "SWI"}
    return tuple(sorted({**full, **_OTHER_NAMES}.items(), key=lambda each: (-len(each[0]), each[0])))


@cache
def _name(place: str) -> str:
    full = next(str(name) for name, code in standard_map().loc_name.items() if code == place[:3])
    the = "the " if full.endswith((" SEA", " OCEAN", " BIGHT", "CHANNEL")) or full.startswith("GULF") else ""
    coast = {"/NC": " (north coast)", "/SC": " (south coast)", "/EC": " (east coast)"}.get(place[3:], "")
    return the + full.title().replace(" Of ", " of ") + coast


def _ordered(order: str, position: Position, speaker: str) -> str:
    """The order as a command, with whose units they are."""
    holder = {unit[2:5]: power for power, units in position.units.items() for unit in units}

    def unit(kind: str, place: str) -> str:
        owner = holder.get(place[:3])
        whose = "my" if owner == speaker else f"{owner.title()}'s" if owner in POWERS else "the"
        return f"{whose} {'army' if kind == 'A' else 'fleet'} in {_name(place)}"

    words = order.split(" ")
    own = unit(words[0], words[1])
    match words[2]:
        case "H":
            return f"hold with {own}"
        case "-":
            return f"move {own} to {_name(words[3])}" + (" by convoy" if words[-1] == "VIA" else "")
        case "S" if len(words) > 5:
            return f"support {unit(words[3], words[4])} into {_name(words[6])} with {own}"
        case "S":
            return f"support {unit(words[3], words[4])} with {own}"
    return f"convoy {unit(words[3], words[4])} to {_name(words[6])} with {own}"
