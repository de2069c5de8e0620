"""A sentence and its clauses, with what stands in the way of taking them at their word."""

from __future__ import annotations

import re

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
    r"|after (?:@?you|i|we|they|he|she|it|the|an?|your|my|our|his|her|its|their|[@#]\w+)"
    r"|following (?:@you's|your|the|my|our|his|her|its|their))\b"
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
_THIRD = r"@[A-Z]+ (?:is|are|has|will)\b"
_NEXT_CLAUSE = re.compile(
    rf"\s*[,:;]\s*(?:and |but |so |then )*(?={_SUBJECTS}|(?:{_ACTS}|they|he|she|it|our)\b|{_THIRD}|my (?!friend|dear))"
    r"|\s+(?:and|but|so)\s+(?:then )?"
    rf"(?={_SUBJECTS}|(?:{_ACTS})\b|{_THIRD}|(?:my|our) .*\b(?:will|shall|is going)\b)"
)


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
    if '"' in said or is_report(said):
        return False
    return _HEDGE.search(_POLITE.sub("", _AT_ONCE.sub("", said))) is None


def is_report(said: str) -> bool:
    """Whether an expanded sentence tells what was said, asked or offered at another time."""
    return _REPORT.search(_AS_PROMISED.sub("", said)) is not None


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
