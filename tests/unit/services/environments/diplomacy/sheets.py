"""Order sheets as text, for tests."""

from __future__ import annotations

from collections.abc import Sequence


def format_sheet(orders: Sequence[str]) -> str:
    """One order per line, each line ended."""
    return "".join(f"{order}\n" for order in orders)
