"""When a failed call to an endpoint is worth repeating, and after how long."""

from __future__ import annotations

import random

import openai

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 8.0  # before an attempt is repeated, doubled each time
LONGEST_OBEYED_WAIT_S = 60.0  # that a server may ask for in Retry-After
# Busy, or lost on the way: the same call may well succeed a moment later.
_PASSING = (408, 409, 425, 429)


def is_passing(error: openai.APIStatusError) -> bool:
    """Whether the same call may succeed later."""
    if error.code == "insufficient_quota":
        return False
    return error.status_code in _PASSING or error.status_code >= 500


def asked_wait_s(error: openai.APIStatusError) -> float | None:
    """Seconds that the server asks to wait, in [0, ``LONGEST_OBEYED_WAIT_S``]; None if it names no number of them."""
    try:
        asked = float(error.response.headers.get("retry-after", ""))
    except ValueError:
        return None
    return min(asked, LONGEST_OBEYED_WAIT_S) if asked >= 0 else None


def backoff_s(attempt: int) -> float:
    """Seconds after attempt 0, 1, ...: doubled each time, and spread so that callers do not come back all at once."""
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0**attempt) * random.uniform(0.75, 1.0)
