"""Lines of the compact press language as plain English."""

from __future__ import annotations

from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.press.english.names import full_name
from services.environments.diplomacy.press.proposals import Proposal


def say(proposal: Proposal, position: Position, sender: str) -> str:
    """The proposal as an English sentence of ``sender``."""
    match proposal.kind:
        case "PEACE":
            return "Let us have peace until the end of the year."
        case "ALLY":
            return f"Let us be allies against {proposal.about.title()} until the end of the year."
        case "DMZ":
            return f"Let us both stay out of {full_name(proposal.about)} until the end of the year."
        case "DRAW":
            return "Let us vote for a draw."
        case "WILL":
            return f"I will {_ordered(proposal.about, position, sender)}."
        case "ASK":
            return f"Please {_ordered(proposal.about, position, sender)}."
        case "ACCEPT":
            return "I agree."
    return "No, I do not agree."


def _ordered(order: str, position: Position, speaker: str) -> str:
    """The order as a command, with whose units they are."""
    holder = {unit[2:5]: power for power, units in position.units.items() for unit in units}

    def unit(kind: str, place: str) -> str:
        owner = holder.get(place[:3])
        whose = "my" if owner == speaker else f"{owner.title()}'s" if owner in POWERS else "the"
        return f"{whose} {'army' if kind == 'A' else 'fleet'} in {full_name(place)}"

    words = order.split(" ")
    own = unit(words[0], words[1])
    match words[2]:
        case "H":
            return f"hold with {own}"
        case "-":
            return f"move {own} to {full_name(words[3])}" + (" by convoy" if words[-1] == "VIA" else "")
        case "S" if len(words) > 5:
            return f"support {unit(words[3], words[4])} into {full_name(words[6])} with {own}"
        case "S":
            return f"support {unit(words[3], words[4])} with {own}"
    return f"convoy {unit(words[3], words[4])} to {full_name(words[6])} with {own}"
