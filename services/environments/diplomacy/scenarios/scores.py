"""What a player achieved in a scenario: one number from 0 to 1 for each family. Pure functions.

opening   0.8 growth + 0.2 position. Growth is the share of the way from the centres at the start to ``goal``; position
          the share of ``provinces`` that the country owns or stands in.
alliance  (0.7 joint gain + 0.3 support) x restraint. Joint gain is the share of ``goal`` centres that the allies
          gained, the partner's gain being counted up to the country's own; support that of movement phases in which the
          country effectively supported its partner, or moved with its effective support; restraint that of movement
          phases in which it did not attack its partner.
crisis    0.5 kept + 0.5 strength, both means over the autumns, and 0 if no centre is left at the end. Kept is the share
          of ``provinces`` that the country owns; strength its centres, wherever they are, over those at the start, at
          most 1.
endgame   win: the share of the way from the centres at the start to 18. hold: kept, as in a crisis. stop: 0 where the
          leader has 18, 1/2 where it has as many as at the start, 1 where it lost as many as it lacked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.environments.diplomacy.alliances import acts
from services.environments.diplomacy.position import CENTERS_TO_WIN, Position
from services.environments.diplomacy.scenarios.scenario import Scenario

GROWTH, REACHED = 0.8, 0.2  # weights of an opening
JOINT, SUPPORT = 0.7, 0.3  # weights of an alliance
KEPT, STRENGTH = 0.5, 0.5  # weights of a crisis
_FAILED = frozenset({"cut", "void", "dislodged", "no convoy", "disrupted"})

# By family, and by the aim of an endgame: the meaning in one line.
MEANING: Mapping[str, str] = {
    "opening": f"{GROWTH} x the way from its centres to the goal + {REACHED} x the share of the provinces that it owns "
    "or stands in",
    "alliance": f"({JOINT} x the allies' joint gain over the goal, the partner's counted up to its own, + {SUPPORT} x "
    "the share of movement phases in which effective support went to the partner, or came from it for a move) x the "
    "share without an attack on the partner",
    "crisis": f"{KEPT} x the share of the provinces that it owns + {STRENGTH} x its centres over those at the start, "
    "at most 1; both means over the autumns; 0 if it is eliminated",
    "win": "the way from its centres to 18",
    "hold": "the share of the provinces that it owns, mean over the autumns; 0 if it is eliminated",
    "stop": "1/2 if the leader keeps its centres, less the nearer it comes to 18, more the further it is thrown back",
}

Owned = Mapping[str, Sequence[str]]  # power -> its centres
Orders = Mapping[str, Sequence[str]]  # power -> its legal orders


@dataclass(frozen=True, slots=True)
class PlayedMoves:
    """A movement phase of a scenario that is over."""

    position: Position
    orders: Orders
    results: Mapping[str, Sequence[str]]  # unit -> what came of its order, as in ``PastPhase``


@dataclass(frozen=True, slots=True)
class ScenarioRecord:
    """All that scores depend on."""

    moves: Sequence[PlayedMoves]
    autumns: Sequence[Owned]  # the owners after each autumn, in order; those at the end where there was none
    final: Position


def score(scenario: Scenario, record: ScenarioRecord) -> float:
    """The score of a family, 0 to 1 (see above)."""
    match scenario.family:
        case "opening":
            return opening_score(scenario, record)
        case "alliance":
            return alliance_score(scenario, record)
        case "crisis":
            return crisis_score(scenario, record)
    if scenario.score.aim == "hold":
        return kept_score(scenario, record)
    final = record.final.centers
    if scenario.score.aim == "win":
        return way(_count(scenario.centers, scenario.country), len(final[scenario.country]), CENTERS_TO_WIN)
    return stopped_score(scenario, final)


def opening_score(scenario: Scenario, record: ScenarioRecord) -> float:
    """0.8 growth + 0.2 position."""
    country, final = scenario.country, record.final
    assert scenario.score.goal is not None
    growth = way(_count(scenario.centers, country), len(final.centers[country]), scenario.score.goal)
    held = {unit[2:5] for unit in final.units[country]} | set(final.centers[country])
    return GROWTH * growth + REACHED * len(held & set(scenario.score.provinces)) / len(scenario.score.provinces)


def alliance_score(scenario: Scenario, record: ScenarioRecord) -> float:
    """(0.7 joint gain + 0.3 support) x restraint; 0 without a movement phase of the country."""
    country, partner, goal = scenario.country, scenario.score.partner, scenario.score.goal
    assert partner is not None
    assert goal is not None
    moves = [played for played in record.moves if played.orders.get(country)]
    if not moves:
        return 0.0
    own, other = (len(record.final.centers[power]) - _count(scenario.centers, power) for power in (country, partner))
    gained = own + min(own, other)  # without the limit, watching the partner win would pay
    supported = sum(
        effective_support(played, country, partner) or effective_support(played, partner, country, for_moves=True)
        for played in moves
    )
    spared = sum(not attacks(played, country, partner) for played in moves)
    return (JOINT * way(0, gained, goal) + SUPPORT * supported / len(moves)) * spared / len(moves)


def kept_score(scenario: Scenario, record: ScenarioRecord) -> float:
    """The mean share of the centres to keep that the country owned, over the autumns; 0 after its elimination."""
    country, wanted = scenario.country, set(scenario.score.provinces)
    if not record.final.centers[country]:
        return 0.0
    shares = [len(wanted & set(owned[country])) / len(wanted) for owned in record.autumns]
    return sum(shares) / len(shares)


def crisis_score(scenario: Scenario, record: ScenarioRecord) -> float:
    """0.5 kept + 0.5 strength; 0 after its elimination."""
    country, start = scenario.country, _count(scenario.centers, scenario.country)
    if not record.final.centers[country]:
        return 0.0
    strength = sum(min(1.0, len(owned[country]) / start) for owned in record.autumns) / len(record.autumns)
    return KEPT * kept_score(scenario, record) + STRENGTH * strength


def stopped_score(scenario: Scenario, final: Owned) -> float:
    """1 where the leader was thrown back by as much as it lacked, 1/2 where it stands still, 0 where it has 18.

    It is 0 for a country without a centre.
    """
    leader = scenario.score.leader
    assert leader is not None
    if not final[scenario.country]:
        return 0.0
    lacked = CENTERS_TO_WIN - _count(scenario.centers, leader)
    return way(0, CENTERS_TO_WIN - len(final[leader]), 2 * lacked)


def way(start: float, now: float, goal: float) -> float:
    """The share of the way from ``start`` to ``goal`` (above it) that is done, within 0 and 1."""
    return min(1.0, max(0.0, (now - start) / (goal - start)))


def effective_support(played: PlayedMoves, giver: str, receiver: str, *, for_moves: bool = False) -> bool:
    """Whether a unit of ``giver`` helped one of ``receiver``: its support was neither cut nor void.

    A support of a unit that stays counts only if another power moved against it, and not at all with ``for_moves``.
    """
    holder = {unit[2:5]: power for power, units in played.position.units.items() for unit in units}
    for order in played.orders.get(giver, ()):
        words = order.split(" ")
        if words[2] != "S" or holder.get(words[4][:3]) != receiver:
            continue
        if _FAILED & set(played.results.get(" ".join(words[:2]), ())):
            continue
        if "-" in words or (not for_moves and _is_attacked(played, words[4][:3], receiver)):
            return True
    return False


def attacks(played: PlayedMoves, power: str, other: str) -> bool:
    """Whether more of a power's orders worked against another than helped it (see ``alliances``)."""
    return acts(played.position, played.orders).get((power, other), 0) < 0


def _is_attacked(played: PlayedMoves, province: str, owner: str) -> bool:
    return any(
        words[2] == "-" and words[3][:3] == province
        for power, orders in played.orders.items()
        if power != owner
        for words in (order.split(" ") for order in orders)
    )


def _count(owned: Owned, power: str) -> int:
    return len(owned.get(power, ()))
