"""Figures of a ladder as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NO_DATA = "–"


def value_text(value: float | None, kind: str, digits: int = 2) -> str:
    """A measure's value: a share in percent, a mean with ``digits`` decimal places, a dash for None."""
    if value is None:
        return NO_DATA
    return f"{100 * value:.1f} %" if kind == "share" else f"{value:.{digits}f}"


def interval_text(interval: Sequence[float] | None, kind: str, digits: int = 2) -> str:
    """An interval in the same units, ``[12, 30]`` in percent; "" for None."""
    if interval is None:
        return ""
    scale, places = (100, 0) if kind == "share" else (1, digits)
    return f"[{', '.join(f'{scale * end:.{places}f}' for end in interval)}]"


def rating_text(row: Mapping[str, Any]) -> str:
    """A rating with its interval in one line: ``1517 [1490, 1544]``; ``1000 (fixed)`` where it fixes the scale."""
    interval = "(fixed)" if row["rating_fixed"] else interval_text(row["rating_ci95"], "mean", 0)
    return f"{row['rating']:.0f} {interval}".rstrip()


def heading(text: str) -> str:
    """A column's name with a capital letter first; those in it stay."""
    return text[:1].upper() + text[1:]
