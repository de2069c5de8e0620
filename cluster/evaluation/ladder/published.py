"""Published figures of one player against six DumbBots, and whether they can be put beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cluster.evaluation.ladder.columns import NAMES
from services.environments.diplomacy.ending import TO_THE_END, Ending

ANCHOR = "dumbbot"  # against six of which all of them were measured


@dataclass(frozen=True, slots=True)
class Published:
    """What others report of a player. ``figures`` has the measures whose definitions agree with ours, by row name."""

    player: str
    source: str
    definition: str
    figures: Mapping[str, float]
    games: int | None  # None: not reported
    ending: Ending | None  # how its games ended, where ours can end alike; None: they cannot
    other: str = ""  # why the figures cannot be put beside ours, however these end

    def why_not(self, ending: Ending) -> str:
        """Why the figures cannot be put beside games with this ending; "" if they can."""
        if self.other:
            return self.other
        return "" if ending == self.ending else f"its games are taken as played to a win or a draw, these to {ending}"


PUBLISHED = (
    Published(
        "DipNet SL",
        "DipNet (diplomacy/research), supervised policy, one against six DumbBots",
        "win is 18 centres; most SC leads a game without a winner; its games are taken as played to a win or a draw",
        {"solo_rate": 0.748, "lead_without_solo_rate": 0.092, "lead_rate": 0.840},
        950,
        TO_THE_END,
    ),
    Published(
        "Glick",
        "bglick13/diplomacy-v2, GRPO on Qwen3-14B, one against six simplified DumbBots",
        "win is rank 1 after five years; ties likely count",
        {"lead_rate": 0.80},
        None,
        None,
        "a simplified DumbBot, and games of five years",
    ),
)


def published_rows(against: str, ending: Ending) -> list[dict[str, Any]]:
    """Rows of the published figures against this anchor, with the names of our rows; [] for other anchors.

    Intervals are None, because the sources report none. ``comparable`` says whether the games and the opponents are
    those of ours, and ``why_not`` what differs.
    """
    if against != ANCHOR:
        return []
    return [
        {
            "checkpoint": each.player,
            "against": against,
            "games": each.games,
            "source": each.source,
            "definition": each.definition,
            "comparable": not each.why_not(ending),
            "why_not": each.why_not(ending),
            **{name: each.figures.get(name) for name in NAMES},
            **{f"{name}_ci95": None for name in NAMES},
        }
        for each in PUBLISHED
    ]
