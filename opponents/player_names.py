"""How a player is named that compares its orders by simulated games, a policy that does not, and one that is silent.

``lookahead:runs/demo`` is the policy of a run with simulated games at each decision, ``policy:champion`` the policy of
the champion without them. The champion itself looks ahead; any other saved policy plays by itself. ``muted:`` before
any of these policies is the same player with its letters withheld, for games with press.
"""

from __future__ import annotations

from typing import NamedTuple

CHAMPION = "champion"  # what comes with the package; ``./champion`` is a folder of that name
LOOKAHEAD_PREFIX = "lookahead:"
POLICY_PREFIX = "policy:"
MUTED_PREFIX = "muted:"
PROPOSAL_TEMPERATURE = 0.7  # of a policy that looks ahead, unless a user names another: its sheets should differ


class PlayerName(NamedTuple):
    """A player's name in parts."""

    saved: str  # where its policy is: ``champion``, a folder or a member; or any player without a policy
    looks_ahead: bool
    is_muted: bool = False


def player_name(name: str) -> PlayerName:
    """Take a name apart. A folder or run whose name begins with one of the prefixes is written ``./lookahead:x``."""
    if name.startswith(MUTED_PREFIX):
        return player_name(name.removeprefix(MUTED_PREFIX))._replace(is_muted=True)
    if name.startswith(LOOKAHEAD_PREFIX):
        return PlayerName(name.removeprefix(LOOKAHEAD_PREFIX), looks_ahead=True)
    if name.startswith(POLICY_PREFIX):
        return PlayerName(name.removeprefix(POLICY_PREFIX), looks_ahead=False)
    return PlayerName(name, looks_ahead=name == CHAMPION)


def policy_alone(name: str) -> str:
    """The name of the same policy without simulated games, whose probabilities are those of its own sampling."""
    saved, looks_ahead, _ = player_name(name)
    return f"{POLICY_PREFIX}{saved}" if looks_ahead else name


def with_saved(name: str, saved: str) -> str:
    """The name with another place for its policy, and what stands before it: ``lookahead:`` and a run's checkpoint."""
    before = player_name(name).saved
    return name[: len(name) - len(before)] + saved
