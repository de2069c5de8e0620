"""Names of powers and provinces in plain English."""

from __future__ import annotations

import re
from functools import cache

from services.environments.diplomacy.rules.legal import standard_map

PEOPLES = {
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


def powers_named(said: str) -> list[str]:
    """The powers that are named, in the order in which they are; in names of provinces they do not count."""
    for name, _ in province_names():
        said = said.replace(name, " " * len(name))
    places = [
        (min(at for name in names if (at := said.find(name)) >= 0), power)
        for power, names in PEOPLES.items()
        if any(re.search(rf"\b{name}\b", said) for name in names)
    ]
    return [power for _, power in sorted(places)]


def provinces_named(said: str) -> list[str]:
    """The provinces that are named, in the order in which they are; longer names first, each letter used once."""
    found: list[tuple[int, str]] = []
    rest = said
    for name, province in province_names():
        for match in re.finditer(rf"\b{re.escape(name)}\b", rest):
            found.append((match.start(), province))
            rest = rest[: match.start()] + " " * len(match[0]) + rest[match.end() :]
    return list(dict.fromkeys(province for _, province in sorted(found)))


@cache
def province_names() -> tuple[tuple[str, str], ...]:
    """Names of provinces in lower case with their abbreviations, longest first."""
    board = standard_map()
    full = {name.lower(): place for name, place in board.loc_name.items() if "/" not in place and place != "SWI"}
    return tuple(sorted({**full, **_OTHER_NAMES}.items(), key=lambda each: (-len(each[0]), each[0])))


@cache
def full_name(place: str) -> str:
    """How a sentence names a province, given as ``BEL`` or with a coast, as ``STP/NC``."""
    full = next(str(name) for name, code in standard_map().loc_name.items() if code == place[:3])
    the = "the " if full.endswith((" SEA", " OCEAN", " BIGHT", "CHANNEL")) or full.startswith("GULF") else ""
    coast = {"/NC": " (north coast)", "/SC": " (south coast)", "/EC": " (east coast)"}.get(place[3:], "")
    return the + full.title().replace(" Of ", " of ") + coast
