"""The orders that a clause declares or asks for.

Its verb stands where the writer speaks of what it does or asks for it, and between the verb and the last province come
only words of ``_BETWEEN``: "I will move to Belgium", not "I will move heaven and earth for Belgium".
"""

from __future__ import annotations

import re

from services.environments.diplomacy.position import Position
from services.environments.diplomacy.press.deeds import deed
from services.environments.diplomacy.press.english.names import is_province, places_in, third_powers
from services.environments.diplomacy.press.proposals import Proposal

_PLACE = r"[A-Z]{3}(?:/[A-Z]{2})?"
_DASH = r"\u2010-\u2015\u2212\ufe58\ufe63\uff0d"
_ARROW = r"\u2190-\u21ff\u2794-\u27be\u27f0-\u27ff"
_DASHES = re.compile(
    rf"(?<=[A-Z]{{2}}) *(?:[-={_DASH}]?>|-{{1,3}}|[{_DASH}\u2192\u21d2\u279c\u27a1]) *(?=[A-Z]{{3}}\b)"
)
# An order, unless more follows that belongs to it: another province, or where a unit that is supported is to go.
_COMPACT = re.compile(
    rf"\b[AF] {_PLACE} (?:H|- {_PLACE}(?: VIA)?|[SC] [AF] {_PLACE} - {_PLACE}"
    rf"|S [AF] {_PLACE}(?!\s*(?:to|into|towards?|mov\w+|going|attack\w*)\b))\b(?!\s*[-<>=/|~+{_DASH}{_ARROW}])"
)
_HOLD_SUPPORT = re.compile(rf"[AF] {_PLACE} S [AF] {_PLACE}")
_ABBREVIATION = re.compile(r"\b[A-Z]{3}\b")
_VERB = (
    r"(?P<verb>move|moving|send|sending|go|going|march|marching|sail|sailing|advance|advancing|take|order|ordering|use"
    r"|support|supporting|convoy|convoying|hold|holding|stay|staying|remain"
    r"|keep (?:my|our|your|the) (?:army|fleet|unit))\b"
)
_WORDS = (
    r"(?: (?:now|also|then|certainly|gladly|happily|surely|definitely|indeed|therefore|be|directly|please|kindly))*"
)
_UNIT = r"(?:the |my |our |your )?(?:army |fleet |unit )?(?:(?:in|at|of|from) )?(?:the )?#[A-Z]{3}(?: army| fleet)?"
_AM_TO = r"(?:will|shall|(?:am|are) going to|(?:intend|promise|swear|plan|agree)(?: you)? to|am|are)"
_WILL = re.compile(
    rf"(?:(?:i|we) (?:{_AM_TO}{_WORDS} |(?:hereby )?(?=order \$))"
    rf"|(?P<unit>{_UNIT}|(?:my|our) (?:army|fleet|unit)) (?:will|shall|is going to){_WORDS} ){_VERB}"
)
_ASK = re.compile(
    rf"(?:(?:please|kindly)(?: (?:can|could|would|will) you)?{_WORDS}|(?:can|could|would|will) (?:you|{_UNIT}){_WORDS}"
    rf"|i (?:ask|need|want|request|beg|urge|would like|would love) you to{_WORDS}) {_VERB}"
)
_ASK_AT_END = re.compile(rf"{_VERB}(?=.* please$)")
_BETWEEN = re.compile(
    r"my|our|your|the|a|an|army|fleet|unit|troops|forces|in|at|from|of|on|to|into|towards|toward|with|by|via"
    r"|using|and|you|me|us|it|move|attack|advance|own|convoy|support|over|back|still|put|position|there|this"
    r"|spring|fall|autumn|year|turn|now|then|gladly|directly|as|agreed|promised|order|hold|@me|@you|@me's|@you's"
)
_SPANS = r"(?:year|turn|spring|fall|autumn|season|phase|move|round)s?"
_NUMBER = (
    r"(?:half an?|an?|one|two|three|four|five|six|seven|eight|nine|ten|a dozen|some|several|many|another|a few"
    r"|a couple of|\d+)"
)
_LATER = re.compile(
    rf"\b(?:(?:next|coming|following|future) (?:{_SPANS}|time)|later|eventually|afterwards?|tomorrow"
    rf"|after (?:that|this)|soon|shortly|sometime|some time|before long|in due (?:course|time)|in the (?:long run|end)"
    rf"|(?:in|within)(?: the)?(?: next)? {_NUMBER}(?: more)? {_SPANS}"
    rf"|{_NUMBER}(?: more)? {_SPANS} (?:from (?:now|today)|hence|ahead|on|away)|the {_SPANS} after|years from now)\b"
)
_YEAR = re.compile(r"\b([sfw]?)((?:1[89]|20)\d\d)([mrab]?)\b|(?:'|\b(?:in|by|from|since|before|after) )([0-3]\d)\b")
_TO_AN_END = re.compile(  # "until next year" is from now on
    rf"\b(?:until|till|through|throughout)(?: (?:the|at least|end of|next|coming|{_SPANS}|of))*"
    rf" (?:{_SPANS}|(?:1[89]|20)\d\d)\b"
)
_OTHER_SEASONS = {
    "S": re.compile(r"\b(?:summer|fall|autumn|winter)\b"),
    "F": re.compile(r"\b(?:spring|summer|winter)\b"),
}
_ACTS = re.compile(  # by kinds of orders; M is a move
    r"\b(?:(?P<S>support(?:ing)?)|(?P<C>(?<!by )convoy(?:ing)?)|(?P<H>hold|holding|stay|staying|remain|keep)"
    r"|(?P<M>move|moving|send|sending|go|going|march|marching|sail|sailing|advance|advancing|take"
    r"|(?:to|into|towards) (?:the )?#[A-Z]{3}))\b"
)
_MAY_FOLLOW = {"S": "SMH", "C": "CM", "H": "H", "M": "M"}  # "support your move", not "move to support you"
_TO = re.compile(r"\b(?:to|into|towards) (?:the |a |an )?#([A-Z]{3})(?!')")


def is_of_later(said: str, position: Position) -> bool:
    """Whether a sentence speaks of another phase than the one before which it is written, as "next turn" does."""
    said = _TO_AN_END.sub("", said)
    if _LATER.search(said) or ((other := _OTHER_SEASONS.get(position.phase[:1])) and other.search(said)):
        return True
    for season, year, stage, short in _YEAR.findall(said):
        named = f"{season or position.phase[0]}{year or position.phase[1:3] + short}{stage or position.phase[-1]}"
        if named.upper() != position.phase:
            return True
    return False


def with_marked_orders(sentence: str) -> tuple[str, list[str]]:
    """A sentence with ``$0``, ``$1`` in the place of the orders in compact notation, and these."""
    plain = _DASHES.sub(" - ", sentence)
    between = _COMPACT.sub(lambda found: " " * len(found[0]), plain)
    last = max((found.end() for found in _ABBREVIATION.finditer(between) if is_province(found[0])), default=0)
    orders: list[str] = []

    def mark(found: re.Match[str]) -> str:
        if last > found.end() and _HOLD_SUPPORT.fullmatch(found[0]):
            return found[0]  # "A MAR S A BUR for GAS" is no support to hold
        orders.append(found[0])
        return f"${len(orders) - 1}"

    return _COMPACT.sub(mark, plain), orders


def ordered(clause: str, written: list[str], position: Position, sender: str, recipient: str) -> Proposal | None:
    """The only order that a clause declares or asks for; None for none or several.

    ``written`` are the orders in compact notation that stand in the clause as ``$0``, ``$1``.
    """
    will = _WILL.match(clause)
    asks = None if will else _ASK.match(clause) or _ASK_AT_END.match(clause)
    act = will or asks
    if act is None or re.search(r"\bor\b", clause):
        return None
    if will and (third_powers(clause) or not _is_own(will["unit"], position, sender)):
        return None
    giver, other = (sender, recipient) if will else (recipient, sender)
    legal = [order for place in position.orderable.get(giver, ()) for order in position.legal[place]]
    said = clause[act.end("verb") :].split()
    last = max((at for at, word in enumerate(said) if word[0] in "#$"), default=-1)
    if any(not _BETWEEN.fullmatch(word) and not re.fullmatch(r"#[A-Z]{3}|\$\d+", word) for word in said[: last + 1]):
        return None
    compact = [written[int(word[1:])] for word in said if re.fullmatch(r"\$\d+", word)]
    if compact:
        order = compact[0] if len(compact) == 1 and compact[0] in legal else None
    else:
        order = _meant(clause, clause[act.start("verb") :], legal, position, giver, other)
    return None if order is None else Proposal("WILL" if will else "ASK", order)


def _is_own(unit: str | None, position: Position, sender: str) -> bool:
    """Whether the unit that a sentence begins with is the writer's: it says so, or names one of its provinces."""
    own = {each[2:5] for each in position.units.get(sender, ())}
    return unit is None or unit.startswith(("my ", "our ")) or set(places_in(unit)) <= own


def _meant(clause: str, act: str, legal: list[str], position: Position, giver: str, other: str) -> str | None:
    """The only legal order of ``giver`` that fits a clause, of which ``act`` is the part from the verb on."""
    kind = _kind(act)
    places = places_in(clause)
    if not places or kind is None:
        return None
    fitting = [order for order in legal if _fits(order, kind, places, position, giver, other, clause)]
    if not fitting:
        return None
    fitting = [order for order in fitting if deed(order, position, giver).helped == other] or fitting
    fewest = min(len(_named(order)) for order in fitting)
    shortest = {order for order in fitting if len(_named(order)) == fewest}
    plain = {order for order in shortest if "/" not in order.split(" ")[-1]} or shortest
    return plain.pop() if len(plain) == 1 else None


def _kind(act: str) -> str | None:
    """The kind of order that a verb and what follows speak of; None for several: "move to Burgundy to support you"."""
    kinds = [str(found.lastgroup) for found in _ACTS.finditer(act)] or ["M"]
    if not set(kinds) <= set(_MAY_FOLLOW[kinds[0]]):
        return None
    return kinds[0].replace("M", "-")


def _fits(order: str, kind: str, places: list[str], position: Position, giver: str, other: str, clause: str) -> bool:
    words = order.split(" ")
    if words[2] != kind or order.endswith(" VIA") != (kind == "-" and "by convoy" in clause):
        return False
    if not set(places) <= set(_named(order)):
        return False
    done = deed(order, position, giver)
    to = _TO.search(clause)
    goal = to[1] if to else None
    if kind in "SC":
        directed = re.search(r"\b(?:to|into|towards)\b(?! (?:support|convoy|hold))", clause) is not None
        return done.helped in (None, other) and done.goal == goal and (goal is not None or not directed)
    return kind != "-" or (goal is not None and done.goal == goal)


def _named(order: str) -> list[str]:
    return [word[:3] for word in order.split(" ") if len(word) >= 3 and word != "VIA"]
