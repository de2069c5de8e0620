"""Which failed calls to an endpoint are retried, and after how long."""

from __future__ import annotations

import random

import openai

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 8.0  # before a retry, doubled each time
LONGEST_RETRY_AFTER_S = 60.0  # a longer Retry-After is shortened to this
_TRANSIENT = (408, 409, 425, 429)  # the server is busy, or the call was lost on the way


def is_transient(error: openai.APIStatusError) -> bool:
    """Return whether the same call may succeed later."""
    return error.code != "insufficient_quota" and (error.status_code in _TRANSIENT or error.status_code >= 500)


def retry_after_s(error: openai.APIStatusError) -> float | None:
    """Return the Retry-After in seconds, in [0, ``LONGEST_RETRY_AFTER_S``]; None if it is no number of seconds."""
    try:
        wait = float(error.response.headers.get("retry-after", ""))
    except ValueError:
        return None
    return min(wait, LONGEST_RETRY_AFTER_S) if wait >= 0 else None


def backoff_s(attempt: int) -> float:
    """Return the seconds to wait after attempt 0, 1, ...: doubled each time, with jitter that spreads the callers."""
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0**attempt) * random.uniform(0.75, 1.0)
