"""Which bots may sit where in simulated games."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.environments.diplomacy.position import POWERS
from services.environments.playing import Bot

# The bots that may have the six other seats, each equally often: the same for all seats, or by power.
Others = Sequence[Bot] | Mapping[str, Sequence[Bot]]
Seats = Mapping[str, Sequence[Bot]]  # power -> the bots that may play it


def seats(power: str, others: Others, own: Sequence[Bot]) -> Seats:
    """The bots of all seven seats; ``own`` may go on for ``power``."""
    return {each: own if each == power else others[each] if isinstance(others, Mapping) else others for each in POWERS}
