"""A letter as sentences and clauses, with what stands in the way of taking them at their word.

Words in quotation marks are another one's, and so are lines that begin with ``>``. A heading such as "Italy wrote:" or
"I will never agree to:" speaks for the lines below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from services.environments.diplomacy.press.english.names import marked
from services.environments.diplomacy.press.proposals import ANSWERS, read

_QUOTED = re.compile(r"\"[^\"]*(?:\"|$)|`[^`]*(?:`|$)|(?<![\w.,!?])'(?=\w)[^'\n]*(?:'\w[^'\n]*)*'(?!\w)")
_CONTRACTIONS = (
    (re.compile(r"\b(?:let's|lets)\b"), "let us"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\bshan't\b"), "shall not"),
    (re.compile(r"\b(?:can't|cannot)\b"), "can not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"'ll\b"), " will"),
    (re.compile(r"'m\b"), " am"),
    (re.compile(r"'re\b"), " are"),
    (re.compile(r"'ve\b"), " have"),
    (re.compile(r"'d\b"), " would"),
    (re.compile(r"\b(it|that)'s\b"), r"\1 is"),
)
_OTHER = r"(?:each other|one another|you|@you)"
_SAME_MEANING = (
    (re.compile(r"\b(?:you and i|you and me|@you and i|i and you|both of us|the two of us)\b"), "we"),
    (re.compile(r"\bwhy (?:do not we|not)\b"), "let us"),
    (re.compile(r"\b(?:will|shall|am going to) (?:not|never)(?: ever)? (?:attack|fight|move against|invade) @?you\b"),
     "offer peace"),
    (re.compile(rf"\b(?:do )?(?:not|never)(?: to)?(?: ever)? (?:attack|fight|move against|invade) {_OTHER}\b"),
     "peace"),
    (re.compile(r"\bstop (?:fighting|attacking) (?:each other|one another)\b"), "peace"),
    (re.compile(r"\bleave (?:each other|one another) (?:alone|in peace|be)\b"), "peace"),
)  # fmt: skip
_AT_ONCE = re.compile(r"\b(?:at once|once (?:more|again|and for all))\b")
_POLITE = re.compile(
    r"(?:^|(?<=[,:;] )|(?<=\band )|(?<=\bbut )|(?<=\bso )|(?<=\bplease ))"
    r"(?:(?:could|would) (?:you|your|we)|may (?:i|we))\b"
    r"|\b(?:i|we) would (?:like|love)\b|\bwhat would you say to\b|\bi would be (?:happy|glad|willing|pleased) to\b"
)
_HEDGE = re.compile(
    r"\b(?:perhaps|maybe|possibly|probably|likely|may|might|could|would|should (?:you|he|she|they|it|i)|if|unless"
    r"|provided|providing|in case|(?:as|so) (?:long|soon) as|depend(?:s|ing)?|assum(?:e|ing)|suppos(?:e|ed|ing)"
    r"|when|whenever|once|whether|wonder(?:ing)?|think(?:ing)? (?:about|of|over)|thought|guess|imagine|doubt|pretend"
    r"|undecided|tempted|otherwise|or else|in (?:exchange|return)|some ?day|one day|in theory|in principle"
    r"|hypothetical(?:ly)?|were (?:you|i|we|they|he|she) to|had you|condition(?:al|ally|s)?|almost|nearly|only after"
    r"|after (?:@?you|i|we|the|your|my))\b"
)
_NEGATION = re.compile(
    r"\b(?:not|never|no|nor|neither|none|nothing|nobody|nowhere|hardly|scarcely|barely|seldom|rarely|refus(?:e|ed|al)"
    r"|declin(?:e|ed)|reject(?:ed)?|deny|denied|impossible|unlikely|unable|forget|far from|too late|fail(?:s|ed)?"
    r"|jok(?:e|ing)|kidding|laugh(?:s|ed|able)?|nonsense|ridiculous|absurd|yeah right|in your dreams|ha ha)\b"
)
_NO_NEGATION = re.compile(r"\bneither of us (?=(?:should |shall |will )?(?:enter|move|go)s?\b)|\bno doubt\b")
_REPORT = re.compile(
    r"\b(?:told|tells|says|said|saying|(?<!you )(?<!i )say|wrote|writes|heard|hears|claims?|claimed|according to|asked"
    r"|asks|rumou?rs?|reports|reported|announce[sd]|insist(?:s|ed)|believe[sd]|thinks|wants|wanted|propose[sd]"
    r"|offer(?:s|ed)|suggest(?:s|ed)|promise[sd]|demand(?:s|ed)|sw(?:ears|ore)|sent)\b"
    r"|\w's (?:letter|message|note|words|offer|proposal|answer|reply)\b"
    r"|\b(?:letter|message|note|words|offer|proposal|answer|reply) from\b"
)
_AS_PROMISED = re.compile(r"\bas (?:i |we |you )?(?:promised|proposed)\b")
_THREAT = re.compile(
    r"\b(?:i|we|my \w+) (?:will|shall|(?:am|are) going to|am|are)(?: \w+)?"
    r" (?:attack|invade|destroy|crush|stab|betray|fight)(?:ing)? (?:@?you|your|@you's)\b"
)
_ONLY_A_CONDITION = re.compile(
    r"(?:and |but )?only (?:if|when|once)\b"
    r"|(?:and |but |just )*(?:if|unless|provided|providing|as long as|so long as|on (?:the |one |a )?condition|assuming"
    r"|under one condition|when|once)\b(?!.*(?:,|\b(?:tell|let|write|answer|say|please)\b))"
    r"|(?:and |but )?(?:i have |there is )?(?:one|a|my) condition\b"
)
_TAKEN_BACK = re.compile(
    r"(?:just |only |i am )*(?:kidding|joking)|(?:or )?(?:maybe |perhaps |rather )?not$|never$|never mind"
    r"|ha(?:ha| ha)*$|on second thoughts?"
)
_LIMITED = re.compile(  # what was agreed to in the sentence before
    r"(?:however|but|except|only|although|though|or rather|and no|no)\b(?!,? (?:doubt|problem|worries))"
    r"|(?:this|that|these|those|so)\b.*\b(?:wrote|writes|said|says|told|answered|replied)\b"
)
_SENDER = re.compile(r"(?:(?:from|message from|letter from|by):? )?(?:the )?@[A-Z]+(?: to (?:the )?@\w+)?:?")
_GREETING = re.compile(
    r"(?:(?:my )?dear(?: \w+)?|hello|hi|greetings|good (?:day|morning|evening)|my (?:dear )?(?:friend|ally|neighbou?r)"
    r"|friend|@you|sorry(?: for [\w ]+)?|thank you|thanks)(?: @you| (?:my )?friend)?\s*[,:!]\s*"
)
_VOCATIVE = re.compile(r",\s*(?:(?:my )?dear |my )?(?:@you|friend|ally|neighbou?r)(?=\s*(?:[,:]|$))")
_LEAD = re.compile(
    r"(?:and|but|so|then|therefore|thus|hence|well|now|also|again|first|finally|still|yet|indeed|honestly|frankly|today"
    r"|this (?:year|turn|season|spring|fall|autumn|phase|time)|in (?:the )?(?:spring|fall|autumn)"
    r"|as (?:promised|agreed)|of course|(?:i|we) (?:think|believe|feel)(?: that)?(?= (?:we|let us) )"
    r"|i (?:promise|swear)(?: you)?(?: that)?(?= (?:i will|my) ))(?:\s*[,:]\s*|\s+|$)"
)
_ACTS = r"stay|keep|leave|hold|move|support|convoy|send|order|vote"
_SUBJECTS = (
    r"(?:i|we|you|let us|(?:please|kindly)(?= \w)|can|could|would|will|shall|(?:how|what) about|what do|neither|both)\b"
)
_WOULD_PROPOSE = re.compile(r"\b(?:i|we) would (?:propose|suggest|offer)\b")
_THIRD = r"@[A-Z]+ (?:is|are|has|will)\b"
_NEXT_CLAUSE = re.compile(
    rf"\s*[,:;]\s*(?:and |but |so |then )*(?={_SUBJECTS}|(?:{_ACTS}|they|he|she|it|our)\b|{_THIRD}|my (?!friend|dear))"
    r"|\s+(?:and|but|so)\s+(?:then )?"
    rf"(?={_SUBJECTS}|(?:{_ACTS})\b|{_THIRD}|(?:my|our) .*\b(?:will|shall|is going)\b)"
)


def passages(text: str, sender: str, recipient: str) -> Iterator[str]:
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
            heading = expanded(re.split(r"[.!?] ", line)[-1])
            is_heading = line.endswith(":") and (is_negated(heading) or not binds(_WOULD_PROPOSE.sub("", heading)))
            if is_heading or _SENDER.fullmatch(marked(heading, sender, recipient)):
                is_anothers, has_begun = True, False
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


def sentences(passage: str) -> list[tuple[str, str]]:
    """The sentences of a passage, without those that the next one takes back or puts under a condition.

    Each has the next one beside it, expanded.
    """
    plain = re.sub(r"^\W*(?:\d+[.)]\s+)?|[*_]", "", passage)
    found = re.split(r"(?<=[.!?])(?<!\bSt\.)(?<!\bst\.)\s+(?!(?<=\.\.\s)[a-z])", plain)
    said = [expanded(each) for each in found]
    return [
        (each, following)
        for each, following in zip(found, [*said[1:], ""], strict=True)
        if not (_ONLY_A_CONDITION.match(following) or _TAKEN_BACK.match(following))
    ]


def may_answer(before: str, following: str) -> frozenset[str]:
    """What a sentence may answer to the reader's proposals: nothing after a question of the writer's own.

    ``before`` is the sentence before it, ``following`` the expanded one after it, which may limit what was accepted.
    """
    if before.rstrip().endswith("?"):
        return frozenset()
    return frozenset({"REJECT"} if _LIMITED.match(following) else ANSWERS)


def expanded(sentence: str) -> str:
    """In lower case, without contractions and the marks at its end."""
    said = re.sub(r"\s*(?:[\u2013\u2014]|\s--?\s)\s*", ", ", sentence.lower().replace("\u2019", "'"))
    for pattern, words in _CONTRACTIONS:
        said = pattern.sub(words, said)
    return re.sub(r"\s+", " ", said).strip(" .!?;")


def simplified(said: str) -> str:
    """An expanded sentence with marks, without greetings and with one word for several of the same meaning."""
    for pattern, words in _SAME_MEANING:
        said = pattern.sub(words, said)
    while (greeting := _GREETING.match(said)) is not None and greeting.end() < len(said):
        said = said[greeting.end() :]
    return _VOCATIVE.sub("", said)


def binds(said: str) -> bool:
    """Whether an expanded sentence is the writer's own word, without a condition or a guess; it may be a refusal."""
    if '"' in said or _REPORT.search(_AS_PROMISED.sub("", said)) or re.match(r"@[A-Z]+:", said):
        return False
    return _HEDGE.search(_POLITE.sub("", _AT_ONCE.sub("", said))) is None


def is_threat(said: str) -> bool:
    """Whether the writer of a simplified sentence without a hedge or negation says that it attacks its reader."""
    return _THREAT.search(said) is not None


def is_negated(said: str) -> bool:
    """Whether a simplified sentence says that something is not so."""
    return _NEGATION.search(_NO_NEGATION.sub("", said)) is not None


def clauses(said: str) -> list[str]:
    """The clauses of a simplified sentence, without punctuation; one without a subject has that of the one before."""
    found: list[str] = []
    subject = ""
    for part in _NEXT_CLAUSE.split(said):
        clause = part
        while (lead := _LEAD.match(clause)) is not None and lead.end() < len(clause):
            clause = clause[lead.end() :]
        clause = re.sub(r"\s*[,:;()]\s*", " ", clause).strip()
        if subject and re.match(rf"(?:{_ACTS})\b", clause) and not clause.endswith("please"):
            clause = f"{subject} {clause}"
        named = re.match(
            r"(?:let us|shall we|we should|i will|i am going to|please|could you|would you|can you)\b", clause
        )
        subject = named[0] if named else ""
        if clause:
            found.append(clause)
    return found


def _without_quotations(text: str) -> str:
    """With one quotation mark in the place of each quotation, and the mark that ended a sentence in it."""
    straight = (
        re.sub("[\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a]", '"', text).replace("\u2018", "'").replace("\u2019", "'")
    )

    def kept(found: re.Match[str]) -> str:
        ending = re.search(r"[.!?](?=\W?$)", found[0])
        return '"' + (ending[0] if ending else "")

    return _QUOTED.sub(kept, straight)
