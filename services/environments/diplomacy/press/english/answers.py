"""Answers: whether a sentence begins with one, and what it says after that.

A word of agreement accepts only if nothing but thanks and the like follows, or a proposal or promise: "Yes, let us have
peace". "Sure, Italy is a danger" accepts nothing.
"""

from __future__ import annotations

import re

_THING = (
    r"(?:(?:all|both)(?: of)? )?(?:that|this|it|you|@you|everything|(?:your|the|these|those)(?: \w+)?"
    r" (?:proposals?|offers?|terms|plans?|ideas?|suggestions?|points?|conditions))"
)
_YES = re.compile(
    r"(?:yes|agreed|accepted|(?:(?:it|that) is a )?deal(?! with)|ok|okay|sure|of course|gladly"
    r"|(?:(?:that|this|it) )?sounds good"
    rf"|(?P<verb>i (?:gladly |happily |fully |completely )?(?:agree(?: (?:to|with) {_THING})?|accept(?: {_THING})?)))"
    r"(?=$|[ ,:;])"
)
_AND_THE_LIKE = re.compile(
    r"[ ,:;]*(?:(?:and |but )?(?:"
    r"(?:thank you|thanks|many thanks)(?: (?:very|so) much| a lot)?(?: for (?:the|your|this) \w+)?"
    rf"|(?:to|with) {_THING}|my (?:dear )?friend|friend|@you|then|indeed|completely|fully|wholeheartedly|entirely"
    r"|please(?=$|,)|(?:to|for) me|you can count on me|i (?:agree|accept)|yes|agreed|deal|ok|okay|sure|of course|gladly"
    r"|(?:it|that) is a deal|(?:(?:that|it|this) )?(?:sounds|looks|seems|is) (?:good|fine|great|fair|reasonable)"
    r"|let us do (?:that|it|so|this)|i will do (?:that|it|so)|a pleasure(?: to work with you)?|as (?:proposed|agreed)"
    r"|as you (?:wish|propose|suggest|like)))(?=$|[ ,:;])"
)
_NO = re.compile(
    r"(?:no(?: (?:deal|thank you|thanks|way))?(?=$|[,:;])|not interested\b|rejected\b"
    rf"|i (?:must |have to )?(?:refuse|decline|reject)(?: {_THING}| to do (?:so|that|it))?(?=$|[,:;]| but\b)"
    r"|i (?:must |have to )?disagree(?=$|[,:;]| but\b)|i am not interested\b"
    rf"|i (?:(?:can|do|will|shall) )?not (?:agree|accept)(?: (?:to|with) [\w #@]+| {_THING})?(?=$|[,:;])"
    r"|i am afraid (?:not\b|(?:that )?i (?:(?:must|have to|will have to) (?:decline|refuse|reject|say no)"
    r"|(?:can|will|do) not (?:agree|accept|do (?:that|it|so)))))"
)


def accepted(said: str) -> tuple[bool, str]:
    """Whether a simplified sentence begins with words of agreement, and what it says after these."""
    start = _YES.match(said)
    if start is None:
        return False, said
    at = start.end()
    while (more := _AND_THE_LIKE.match(said, at)) is not None:
        at = more.end()
    rest = said[at:]
    if start["verb"] and rest.strip() and rest[0] not in ",:;":
        return False, said  # "I agree to a truce" and "I agree that Russia is strong" are no answers to all
    return True, _without_joint(rest)


def refused(said: str) -> tuple[bool, str]:
    """Whether a simplified sentence begins with a refusal, and what it says after that."""
    plain = re.sub(r"^(?:but|well|oh|sorry|unfortunately)[ ,:]+", "", said)
    start = _NO.match(plain)
    return (False, said) if start is None else (True, _without_joint(plain[start.end() :]))


def _without_joint(rest: str) -> str:
    return re.sub(r"^[ ,:;]+", "", re.sub(r"^[ ,:;]*(?:and|but|so|then)\b", "", rest))
