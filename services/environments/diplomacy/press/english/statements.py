"""The statements of a letter: what its writer says, line by line and sentence by sentence.

Words in quotation marks are another one's, and so are lines that begin with ``>``. A heading such as "Italy wrote:" or
"I will never agree to:" speaks for the lines below it, and "Italy:" for the rest of its line. What the next sentence
takes back is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from services.environments.diplomacy.press.english.names import marked
from services.environments.diplomacy.press.english.sentences import binds, expanded, is_negated, is_report
from services.environments.diplomacy.press.proposals import ANSWERS, Kind, Proposal, read

_QUOTED = re.compile(r"\"[^\"]*(?:\"|$)|`[^`]*(?:`|$)|(?<![\w.,!?])'(?=\w)[^'\n]*(?:'\w[^'\n]*)*'(?!\w)")
_WOULD_PROPOSE = re.compile(r"\b(?:i|we) would (?:propose|suggest|offer)\b")
_RULER = r"(?:king|emperor|kaiser|tsar|sultan|president|prime minister|minister|ambassador|government|court|player)"
_THIRD_POWER = rf"(?:the )?(?:{_RULER} of )?(?:the )?@[A-Z]+(?: {_RULER})?"
_SPEAKER = rf"\W*(?:(?:\w+ )?(?:from|by):? )?{_THIRD_POWER}(?:(?:,? (?:to|for) (?:the )?|\W+)(?:@\w+|me|us|all))?\W*"
_SENDER = re.compile(_SPEAKER)
_SENDER_AT_END = re.compile(rf".*\bfrom {_THIRD_POWER}\W*")
_SPEAKS = re.compile(rf"{_SPEAKER}(?<=:)")
_ANOTHER = re.compile(r"@[A-Z]+|\b(?:he|she|they)\b")
_REST_OF_AN_ORDER = re.compile(r"[-\u2010-\u2015\u2212=>\u2190-\u21ff]+\s*[A-Z]{3}(?:/[A-Z]{2})?\W*")

_ONLY_A_CONDITION = re.compile(
    r"(?:and |but )?only (?:if|when|once)\b"
    r"|(?:and |but |just )*(?:if|unless|provided|providing|as long as|so long as|on (?:the |one |a )?condition|assuming"
    r"|under one condition|when|once)\b(?!.*(?:,|\b(?:tell|let|write|answer|say|please)\b))"
    r"|(?:and |but )?(?:i have |there is )?(?:one|a|my) condition\b"
)
_TAKEN_BACK = re.compile(
    r"(?:just |only |i am )*(?:kidding|joking)|(?:or )?(?:maybe |perhaps |rather |of course |i think )?not$|never$"
    r"|never mind|ha(?:ha| ha)*$|on second thoughts?|(?:oh |well )?no$|not (?:really|at all|in the least)$"
    r"|(?:forget|scratch|strike|ignore) (?:it|that|this)\b|i (?:do|did) not mean (?:it|that|this)\b"
    r"|i (?:was|am) (?:lying|not serious)|i lied|i take (?:it|that|this|everything) back"
    r"|(?:it|that|this) (?:is|was) (?:only |just )?a (?:joke|lie|jest)\b"
)
_LIMITED = re.compile(  # what was agreed to in the sentence before
    r"(?:well,? |just |and )*(?:however|but|except|only|although|though|yet|still|or rather|no|not (?!only\b)"
    r"|apart from|with (?:one|a|some|a few|two|several) (?:small |little |minor )?"
    r"(?:exception|reservation|change|limit)s?)\b"
    r"(?!,? (?:doubt|problem|worries))"
    r"|.*\b(?:however|though)$"
    r"|(?=.*(?:\b(?:wrote|writes|spoke|said|says|told|answered|replied)|\w's (?:words|answer|reply|letter))\b)"
    r"(?:(?:this|that|these|those|so|thus)\b|.* (?:this|that|so|it)$)"
)
_SHORT = 4  # words of a sentence that does not turn from the question before it


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of plain English, with the kinds of answers that it may give to the reader's proposals."""

    text: str
    answers: tuple[Kind, ...]


def statements(text: str, sender: str, recipient: str) -> Iterator[Proposal | Statement]:
    """Lines of the compact language as proposals, and the sentences of the others.

    A sentence that the next one takes back or puts under a condition is left out. One after a question of the writer's
    own answers that, and one that the next limits accepts nothing.
    """
    said: list[Proposal | str] = []
    for passage in _passages(text, sender, recipient):
        exact = read(passage)
        said += _sentences(passage, sender, recipient) if exact is None else [exact]
    following = [expanded(each) if isinstance(each, str) else "" for each in [*said, ""]][1:]
    is_asked = False
    for each, then in zip(said, following, strict=True):
        if isinstance(each, Proposal):
            is_asked = False
            yield each
            continue
        if not (_ONLY_A_CONDITION.match(then) or _TAKEN_BACK.match(then)):
            yield Statement(each, () if is_asked else ("REJECT",) if _LIMITED.match(then) else ANSWERS)
        is_question = "?" in re.split(r"\w", each)[-1]
        is_asked = is_question or (is_asked and len(each.split()) <= _SHORT)


def _passages(text: str, sender: str, recipient: str) -> Iterator[str]:
    """The lines of a letter; one of plain English may go on in the next one."""
    found: list[str] = []
    goes_on = is_anothers = has_begun = False
    for line in map(str.strip, _without_quotations(text).split("\n")):
        if not line:
            goes_on = False
            is_anothers = is_anothers and not has_begun  # a blank line may stand between a heading and its lines
        elif is_anothers:
            has_begun = True
        elif not line.startswith(">"):
            if _is_heading(line, sender, recipient):
                is_anothers, has_begun = True, False
            elif found and _REST_OF_AN_ORDER.fullmatch(line):
                found[-1] += " " + line
            elif read(line) is not None:
                found.append(line)
                goes_on = False
            else:
                if found and (goes_on or (line[0].islower() and read(found[-1]) is None)):
                    found[-1] += " " + line
                else:
                    found.append(line)
                goes_on = line.endswith(",")
    yield from found


def _is_heading(line: str, sender: str, recipient: str) -> bool:
    """Whether a line says that those below it are another one's words, or are refused or under a condition."""
    line = re.sub(r"[*_]", "", line).rstrip()
    last = expanded(re.split(r"[.!?] ", line)[-1])
    if _SENDER.fullmatch(marked(last, sender, recipient)):
        return True
    if not line.endswith(":"):
        return False
    is_sender = _SENDER_AT_END.fullmatch(marked(last, sender, recipient)) is not None
    return is_sender or is_negated(last) or not binds(_WOULD_PROPOSE.sub("", last))


def _sentences(passage: str, sender: str, recipient: str) -> list[str]:
    """The sentences of a passage, up to one from which on another one speaks, as in "Italy wrote: Let us talk."."""
    plain = re.sub(r"^\W*(?:\d+[.)]\s+)?|[*_]", "", passage)
    found = re.split(r"(?<=[.!?])(?<!\bSt\.)(?<!\bst\.)\s+(?!(?<=\.\.\s)[a-z])", plain)
    for number, each in enumerate(found):
        said = marked(expanded(each), sender, recipient)
        before, colon, _ = said.partition(":")
        if _SPEAKS.match(said) or (colon and _ANOTHER.search(before) and is_report(before)):
            return found[:number]
    return found


def _without_quotations(text: str) -> str:
    """With one quotation mark in the place of each quotation, and the mark that ended a sentence in it."""
    straight = re.sub("[\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a]", '"', text)
    straight = re.sub("[\u2018\u2019]", "'", straight)

    def kept(found: re.Match[str]) -> str:
        ending = re.search(r"[.!?](?=\W?$)", found[0])
        return '"' + (ending[0] if ending else "")

    return _QUOTED.sub(kept, straight)
