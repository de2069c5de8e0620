"""Peace, alliances, demilitarised provinces and draws that a clause proposes.

Each stands after words that propose, such as "let us" or "I offer", with only words of ``_BETWEEN`` before it, or
alone: "Peace?".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from services.environments.diplomacy.press.english.names import places_in, third_powers
from services.environments.diplomacy.press.proposals import Proposal

_FRAME = re.compile(
    r"(?P<we>let us|shall we|can we|could we|may we|(?:how|what) about(?! (?:our|the|your|that|this)\b)"
    r"|what (?:do|would) you say to|we (?:two |both |really |all )*(?:should|must|need|ought)|neither of us"
    r"|my (?:proposal|offer|suggestion)(?! (?:of|on|for|about)\b))\b"
    r"|(?P<you>(?:will|would) you|are you (?:open|willing|ready))\b"
    r"|(?:may )?(?:i|we)(?: both| hereby| formally| now| also| again| gladly| still| sincerely| really| will)* "
    r"(?:(?P<offer>propose|offer|suggest|agree|would like to (?:propose|offer|suggest))"
    r"|want|wish|seek|need|ask(?: you)? for|accept|vote|keep|come in|promise|swear|call for|would (?:like|love)"
    r"|would be (?:happy|glad|willing|pleased)|am (?:for|willing|ready|happy|glad|in favou?r of))\b"
)
_BETWEEN = re.compile(
    r"to|that|we|us|you|both|have|make|keep|agree|sign|conclude|maintain|establish|declare|it|be|become|at"
    r"|in|live|settle|for|enter|into|with|of|a|an|the|our|your|on|offer|propose|suggest|accept|vote|form|my"
    r"|me|more|again|another|year|years|some|stay|remain|is|are|lasting|formal|mutual|short|long|simple|firm"
    r"|real|full|general|immediate|one|now|still|please|also|together|do|open|agreement|pact|proposal"
)
_PEACE = re.compile(
    r"(?:call (?:a |an )?)?(?:peace|truce|armistice|cease-?fire|non-?aggression)\b"
    r"(?! (?:is|was|has|had|can|will|must|should|to|of mind|and quiet|talks?|terms|offers?|proposals?|negotiations?"
    r"|conference|means|or|we|you|i|they|that|which|as|for (?:the )?#[A-Z]{3})\b)"
)
_DRAW = re.compile(
    r"(?:(?:end|call) (?:it|this|the game) (?:in |as |with )?(?:a |the )?)?draw"
    r"(?=$| (?:now|together$|together (?:now|this|with)|then|please|between (?:us|you|the two)"
    r"|with (?:you|me|us|each|one)|(?:in )?(?:this|the) (?:game|year|turn|spring|fall|autumn|one)|while|because|so"
    r"|before|by (?:the end|1[89]\d\d)|today|since)\b)"
)
_ALLY = re.compile(
    r"(?P<joint>ally|allies|alliance|partners|team up|work together|work with (?:you|me)|join (?:me|us|forces)|unite"
    r"|gang up|stand together|cooperate|co-operate)\b|fight\b|attack\b"
)
_AIM = re.compile(r"\b(?:against|fight|attack) (?:the )?@([A-Z]+)(?!')\b")
_DMZ = re.compile(
    r"(?P<zone>(?:dmz|demilitari[sz]ed?)(?: (?:zone|area|province))?)\b"
    r"|(?:stay|keep|remain)(?: (?!out|away|clear)\w+){0,3} (?:out of|away from|clear of)\b"
    r"|(?:keep|leave|declare|make|treat)\b"
    r"(?=(?: (?:the|both|and|#[A-Z]{3}))+ (?:as |into )?(?:an? )?"
    r"(?:empty|free|neutral|clear|unoccupied|dmz|demilitari[sz]ed)\b)"
    r"|(?P<none>(?:should |shall |will |may )?(?:enters?|moves? (?:in)?to|go(?:es)? (?:in)?to))\b"
)
_BEFORE_PLACES = re.compile(r"in|of|at|for|over|on|the|both|and|all|as")
_ALONE = re.compile(
    r"a|an|peace|truce|armistice|ceasefire|non-aggression|nonaggression|pact|treaty|agreement|draw|alliance"
    r"|against|between|us|with|me|you|then|now|please|this|year|until|the|end|of|and"
)
_ZONE_ALONE = re.compile(
    r"(?:a |an )?(?:dmz|demilitari[sz]ed zone) (?:in |at |for )?(?:the )?#([A-Z]{3})(?: please| then| this year)?"
    r"|(?:the )?#([A-Z]{3}) (?:as )?(?:an? )?(?:dmz|demilitari[sz]ed zone)(?: please| then| this year)?"
)


def alone(said: str) -> Iterator[Proposal]:
    """What a sentence proposes that has no more than the name of it; none with a word that says anything else."""
    if (zone := _ZONE_ALONE.fullmatch(said)) is not None:
        yield Proposal("DMZ", zone[1] or zone[2])
        return
    words = said.split()
    if all(_ALONE.fullmatch(word) or re.fullmatch(r"@(?!me)\w+", word) for word in words):
        rest = " ".join(words).removeprefix("a ").removeprefix("an ")
        third = third_powers(rest)
        if rest.startswith("alliance") and len(third) == 1 and (aim := _AIM.search(rest)) is not None:
            yield Proposal("ALLY", aim[1])
        elif not third and _PEACE.match(rest):
            yield Proposal("PEACE")
        elif not third and _DRAW.match(rest):
            yield Proposal("DRAW")


def proposed(clause: str) -> Iterator[Proposal]:
    """What a clause of a sentence without hedge or negation proposes to both."""
    frame = _FRAME.match(clause)
    if frame is None or re.search(r"\bor\b|\byou to\b", clause):
        return
    pieces = clause[frame.end() :].strip().split(" and ")
    said: list[tuple[list[str], str]] = []  # the words between, and what comes after some of them
    for number in range(len(pieces)):
        words = " and ".join(pieces[number:]).split()
        most = next((at for at, word in enumerate(words) if not _BETWEEN.fullmatch(word)), len(words))
        said += [(words[:at], " ".join(words[at:])) for at in range(most + 1)]
        if number == 0 and not any(_content(frame, *each) for each in said):
            return
    found = dict.fromkeys(proposal for each in said for proposal in _content(frame, *each))
    others = third_powers(clause) - {each.about for each in found if each.kind == "ALLY"}
    yield from (each for each in found if each.kind == "DRAW" or not others)


def _content(frame: re.Match[str], before: list[str], rest: str) -> list[Proposal]:
    if _PEACE.match(rest):
        return [Proposal("PEACE")]
    if _DRAW.match(rest):
        return [Proposal("DRAW")]
    if (ally := _ALLY.match(rest)) is not None and (aim := _AIM.search(rest)) is not None:
        together = frame["we"] or ally["joint"] or re.search(r"\b(?:together|with (?:you|me))\b", rest)
        return [Proposal("ALLY", aim[1])] if together and len(third_powers(rest)) == 1 else []
    zone = _DMZ.match(rest)
    if zone is None or bool(zone["none"]) != frame[0].startswith("neither"):
        return []
    # "I will stay out of it" binds its writer alone, which a demilitarised province cannot say.
    both = frame["we"] or (frame["offer"] and "you" not in before) or {"we", "us", "both", "agree"} & {*before}
    return [Proposal("DMZ", place) for place in _places_next(rest[zone.end() :])] if both or zone["zone"] else []


def _places_next(rest: str) -> list[str]:
    """The provinces that follow at once."""
    near: list[str] = []
    for word in rest.split():
        if not (_BEFORE_PLACES.fullmatch(word) or re.fullmatch(r"#[A-Z]{3}", word)):
            break
        near.append(word)
    return places_in(" ".join(near))
