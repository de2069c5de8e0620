"""Who sat at the other seats: of an episode, as a text, and over a run's updates, in columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from services.reports.run_report.schema import Audit, Lineup

Members = Mapping[int, Sequence[str]]  # by the block's number: who sat at the other seats, sorted
SNAPSHOTS = "snapshots of itself"
OTHERS = "others"
_SNAPSHOT = "policy/"
_MOST = 8  # opponents with a column of their own


def members_of(lineups: Sequence[Lineup]) -> dict[int, list[str]]:
    """Return who sat at the other seats of each block; bots without the prefix of their kind."""
    return {
        lineup.index: sorted(name.removeprefix("bot/") for name in lineup.members.values())
        for lineup in lineups
        if lineup.members
    }


def seats_in_words(members: Members, block: str) -> str | None:
    """Return a block's opponents as one text, such as ``2 dumbbot, policy/v3``; None if unknown."""
    counted = Counter(_of_block(members, block))
    return ", ".join(f"{count} {name}" if count > 1 else name for name, count in counted.items()) or None


def opponents_over_updates(audits: Sequence[Audit], members: Members) -> dict[str, Any]:
    """Return ``seats`` and ``reward``, a column over the updates for each opponent, the most frequent first.

    ``seats``: the share of the other seats that it held. ``reward``: the mean reward of the update's episodes, each
    weighted by the seats that the opponent held in it; None where it held none. All snapshots of the learner count as
    one opponent, and the rare ones as ``others``. Empty if no line-up is known.
    """
    seats = [_seats(audit, members) for audit in audits]
    totals = Counter({name: 0 for update in seats for name in update})
    for update in seats:
        totals.update({name: sum(held) for name, held in update.items()})
    ranked = [name for name, _ in sorted(totals.items(), key=lambda pair: (-pair[1], pair[0]))]
    own = ranked if len(ranked) <= _MOST + 1 else ranked[:_MOST]
    columns: dict[str, Sequence[str]] = {name: (name,) for name in own}
    if len(own) < len(ranked):
        columns[OTHERS] = ranked[_MOST:]
    held = {name: [_together(update, names) for update in seats] for name, names in columns.items()}
    all_seats = [sum(map(sum, update.values())) for update in seats]
    return {
        "seats": {
            name: [sum(each) / most if most else None for each, most in zip(updates, all_seats, strict=True)]
            for name, updates in held.items()
        },
        "reward": {
            name: [_weighted(audit.rewards, each) for audit, each in zip(audits, updates, strict=True)]
            for name, updates in held.items()
        },
    }


def _of_block(members: Members, block: str) -> Sequence[str]:
    digits = block.removeprefix("b")
    return members.get(int(digits), ()) if digits.isdecimal() else ()


def _seats(audit: Audit, members: Members) -> dict[str, list[int]]:
    """By opponent: how many seats it held in each of the update's episodes."""
    found: dict[str, list[int]] = {}
    for place, episode in enumerate(audit.episodes):
        for name in _of_block(members, episode.partition("/")[0]):
            column = SNAPSHOTS if name.startswith(_SNAPSHOT) else name
            found.setdefault(column, [0] * len(audit.episodes))[place] += 1
    return found


def _together(update: Mapping[str, Sequence[int]], names: Sequence[str]) -> list[int]:
    return [sum(column) for column in zip(*(update[name] for name in names if name in update), strict=True)]


def _weighted(rewards: Sequence[float | None], seats: Sequence[int]) -> float | None:
    pairs = [(reward, held) for reward, held in zip(rewards, seats, strict=False) if reward is not None and held > 0]
    total = sum(held for _, held in pairs)
    return sum(reward * held for reward, held in pairs) / total if total else None
