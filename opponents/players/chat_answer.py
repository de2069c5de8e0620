"""The answer of a general chat model: its mask, what is read of it, and the request to correct it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from services.environments.playing import Defect, Slot
from services.inference.messages import Message

# What is read of an answer: its last lines, and the beginning of each. A sheet has at most 34 short orders.
MOST_LINES, LONGEST_LINE = 1000, 200
_QUOTED_CHARACTERS, _QUOTED_DEFECTS = 20_000, 40  # in the request for a correction

_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")

# A number or bullet before an order, and emphasis or code marks around it.
_DECORATION = re.compile(r"^\s*(?:(?:[-*•]|\d+[.):])\s+)?[`*]*|[`*]+\s*$")


def correction(answer: str, defects: Sequence[Defect]) -> list[Message]:
    """The messages that follow an answer which left units without an order."""
    quoted = defects[:_QUOTED_DEFECTS]
    wrong = "\n".join(f"{defect.text}: {defect.reason.replace('_', ' ')}" for defect in quoted)
    return [
        {"role": "assistant", "content": answer[-_QUOTED_CHARACTERS:]},
        {"role": "user", "content": f"That cannot stand:\n{wrong}\nWrite the whole list again, from the legal orders."},
    ]


def sheet_regex(slots: Sequence[Slot]) -> str:
    r"""Matches any choice of one alternative per slot, one line each in the slots' order, with no final newline.

    It cannot express that alternatives of two slots exclude one another. What is special in every dialect of regular
    expressions is escaped.
    """
    escaped = r"\\\g<0>"
    return r"\n".join(f"(?:{'|'.join(_SPECIAL.sub(escaped, text) for text in slot.alternatives)})" for slot in slots)


def order_lines(answer: str) -> str:
    """An answer stripped of what chat models put around orders: reasoning, fences, numbers, bullets, emphasis.

    Of a longer one, the last ``MOST_LINES`` lines and ``LONGEST_LINE`` characters of each.
    """
    _, closed, after = answer.rpartition("</think>")
    written = [line for line in (after if closed else answer).splitlines() if line.strip()]
    lines = [line.strip()[:LONGEST_LINE] for line in written[-MOST_LINES:]]
    return "\n".join(_DECORATION.sub("", line).strip() for line in lines if not line.startswith("```"))
