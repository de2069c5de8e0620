"""Names of powers and provinces in plain English."""

from __future__ import annotations

import re
from functools import cache

from services.environments.diplomacy.rules.legal import standard_map

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


def marked(said: str, sender: str, recipient: str) -> str:
    """A sentence in lower case with marks for names: ``#BEL`` a province, ``@ITALY`` a power, ``@me``, ``@you``."""
    two = {sender: "@me", recipient: "@you"}

    def mark(found: re.Match[str]) -> str:
        if (place := _places().get(found[0])) is not None:
            return f"#{place}"
        power = next(power for power, names in _PEOPLES.items() if found[0] in names)
        return two.get(power, f"@{power}")

    return _all_names().sub(mark, said)


def places_in(said: str) -> list[str]:
    """The provinces of a marked sentence, each once, in the order in which they are named."""
    return list(dict.fromkeys(re.findall(r"#([A-Z]{3})", said)))


def third_powers(said: str) -> set[str]:
    """The powers of a marked sentence that neither write nor read it."""
    return set(re.findall(r"@([A-Z]+)", said))


@cache
def full_name(place: str) -> str:
    """How a sentence names a province, given as ``BEL`` or with a coast, as ``STP/NC``."""
    full = next(str(name) for name, code in standard_map().loc_name.items() if code == place[:3])
    the = "the " if full.endswith((" SEA", " OCEAN", " BIGHT", "CHANNEL")) or full.startswith("GULF") else ""
    coast = {"/NC": " (north coast)", "/SC": " (south coast)", "/EC": " (east coast)"}.get(place[3:], "")
    return the + full.title().replace(" Of ", " of ") + coast


def is_province(place: str) -> bool:
    """Whether an abbreviation is that of a province of the map."""
    return place in _places().values()


@cache
def _places() -> dict[str, str]:
    """Names of provinces in lower case with their abbreviations."""
    board = standard_map()
    full = {name.lower(): place for name, place in board.loc_name.items() if "/" not in place and place != "SWI"}
    return {**full, **_OTHER_NAMES}


@cache
def _all_names() -> re.Pattern[str]:
    names = [*_places(), *(name for names in _PEOPLES.values() for name in names)]
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})\b")
