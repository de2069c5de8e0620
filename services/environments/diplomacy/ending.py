"""When a game without a winner ends: after a year, or as a draw once no centre changes hands any more."""

from __future__ import annotations

import re
from dataclasses import dataclass

FIRST_YEAR, LAST_YEAR = 1901, 1999
END = "end"  # in place of a year


@dataclass(frozen=True, slots=True)
class Ending:
    """The last year of a game, and the quiet years after which it is a draw of all survivors before that."""

    until_year: int
    quiet_years: int | None = None  # in which no centre changes hands; None: no such draw

    def __str__(self) -> str:
        """``1908``, or ``1935, or a draw after 5 years without a change of centres``"""
        if self.quiet_years is None:
            return str(self.until_year)
        years = "1 year" if self.quiet_years == 1 else f"{self.quiet_years} years"
        return f"{self.until_year}, or a draw after {years} without a change of centres"


TO_THE_END = Ending(1935, 5)


def parse_ending(text: str) -> Ending:
    """Read ``1908`` or ``end``. Raises ValueError for anything else, a year outside 1901 to 1999 included."""
    if text.strip().lower() == END:
        return TO_THE_END
    year = int(text) if re.fullmatch(r"\s*[0-9]{4}\s*", text) else 0
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise ValueError(f"{text[:40]!r} is neither a year from {FIRST_YEAR} to {LAST_YEAR} nor {END!r}")
    return Ending(year)
