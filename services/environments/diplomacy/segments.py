"""Stretches of a game whose returns resemble one another."""

from __future__ import annotations

from typing import Literal

OPENING_UNTIL = 1903
MIDGAME_UNTIL = 1908


def segment(phase: str) -> Literal["opening", "midgame", "endgame"]:
    """The stretch of a short phase name (``S1901M``): opening to 1903, midgame to 1908, then endgame."""
    year = int(phase[1:5])
    if year <= OPENING_UNTIL:
        return "opening"
    return "midgame" if year <= MIDGAME_UNTIL else "endgame"
