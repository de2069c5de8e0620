"""What a saved game says of its players, as text to show. A file from elsewhere may hold anything there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from grpo_core.errors import one_line

_KEY = "entente"
_SCHEMA = 1
_SHOWN = 100  # characters of a text
_CHECKSUM_SHOWN = 12  # digits in a terminal
_Text = Annotated[str, msgspec.Meta(max_length=500)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Seat(msgspec.Struct):
    player: _Text
    kind: _Text = ""
    version: _Number | None = None
    checksum: _Text | None = None
    decoding: _Text | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=1e6)] | None = None


class _Record(msgspec.Struct):
    seats: Annotated[dict[_Text, _Seat], msgspec.Meta(max_length=100)]
    seed: _Number | None = None
    until_year: _Number | None = None
    quiet_years: _Number | None = None
    commit: _Text = ""
    package_version: _Text = ""


@dataclass(frozen=True, slots=True)
class Seat:
    """One player; all texts are printable lines, empty where nothing was recorded."""

    player: str  # "demo/checkpoints/90", "dumbbot"
    kind: str  # "bot", "checkpoint", "learner", "shipped" or "remote"
    version: str  # "90 updates", "version 55", "release 0.1.0"
    checksum: str
    sampling: str  # "constrained, temperature 1"


@dataclass(frozen=True, slots=True)
class Origin:
    """Who played a game, and with what."""

    seats: Mapping[str, Seat]  # by power; empty if it was not recorded
    facts: tuple[tuple[str, str], ...]  # name and value: seed, last year, commit, version of this package
    note: str  # one line that says why there are no seats; empty if there are

    def lines(self) -> list[str]:
        """Return the record as lines for a terminal, or the note."""
        if self.note:
            return [self.note]
        rows = [
            (power, seat.player, ", ".join(filter(None, (seat.kind, seat.version, seat.sampling))), seat.checksum)
            for power, seat in self.seats.items()
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(3)] if rows else [0] * 3
        lines = [
            "  ".join(
                [
                    *(text.ljust(width) for text, width in zip(row, widths, strict=False)),
                    f"SHA-256 {row[3][:_CHECKSUM_SHOWN]}" if row[3] else "",
                ]
            ).rstrip()
            for row in rows
        ]
        return [*lines, ", ".join(f"{name} {value}" for name, value in self.facts)]


def read_origin(document: Mapping[str, Any], powers: tuple[str, ...]) -> Origin:
    """Return a saved game's record of who played as these ``powers``; a damaged one becomes a note, never an error."""
    found = document.get(_KEY)
    if found is None:
        return Origin({}, (), "This file does not say who played.")
    try:
        if isinstance(found, dict) and found.get("schema") != _SCHEMA:
            raise ValueError(f"it has schema {one_line(repr(found.get('schema')), 40)}, and {_SCHEMA} is read here")
        record = msgspec.convert(found, _Record)
        if unknown := sorted(record.seats.keys() - set(powers)):
            raise ValueError(f"the map has no power {one_line(repr(unknown[0]), 40)}")
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        return Origin({}, (), f"The record of who played is damaged: {one_line(error, 200)}.")
    facts = (
        ("seed", record.seed),
        ("to the end of", record.until_year),
        ("or a draw after quiet years:", record.quiet_years),
        ("commit", record.commit),
        ("Entente", record.package_version),
    )
    return Origin(
        {power: _seat(record.seats[power], record) for power in powers if power in record.seats},
        tuple((name, _shown(value)) for name, value in facts if value not in (None, "")),
        "",
    )


def _seat(seat: _Seat, record: _Record) -> Seat:
    version = "" if seat.version is None else f"{seat.version} updates"
    if seat.version is not None and seat.kind == "shipped":  # with the package, whose releases number it
        version = f"version {seat.version}"
    if seat.version is None and seat.checksum and seat.kind in ("bot", "remote"):
        version = f"release {_shown(record.package_version)}"  # their checksums change with it
    temperature = None if seat.temperature is None else f"temperature {seat.temperature:g}"
    sampling = ", ".join(_shown(part) for part in (seat.decoding, temperature) if part)
    return Seat(_shown(seat.player), _shown(seat.kind), version, _shown(seat.checksum or ""), sampling)


def _shown(value: object) -> str:
    return one_line(value, _SHOWN)
