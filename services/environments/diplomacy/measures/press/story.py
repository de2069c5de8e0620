"""What became of the letters of a saved game, for its page: promises, conduct of pairs, alliances of its years."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.environments.diplomacy.alliances import Standings, updated_standings
from services.environments.diplomacy.measures.press.alliances import called, standing_alliances
from services.environments.diplomacy.measures.press.history import NegotiatedPhase, negotiated_phases
from services.environments.diplomacy.press.conduct import ConductLog
from services.environments.diplomacy.press.english.saying import say
from services.environments.diplomacy.press.promises import Verdict
from services.environments.diplomacy.saved_game import check_saved_game

Told = tuple[str, str, str, str]  # giver, partner, what, and "kept", "broken" or "" if nothing could break it


@dataclass(frozen=True, slots=True)
class PressStory:
    """Of one game, by power: what ``services.reports.game_viewer.press.PressStory`` asks for."""

    promises: Mapping[str, tuple[Told, ...]]  # movement phase -> the promises that bound in it
    pairs: Mapping[tuple[str, str], tuple[int, int, int, int]]  # giver and partner -> kept, broken, supports, phases
    alliances: Mapping[int, tuple[str, ...]]  # year -> the names of those that stood at its end
    trust: Mapping[int, Mapping[tuple[str, str], tuple[int, int]]]  # year -> pair -> kept and broken by its end
    meanings: Mapping[str, Mapping[tuple[str, str], str]]  # movement phase -> sender and compact line -> it in English


def press_story(document: Mapping[str, Any], name: str) -> PressStory | None:
    """Read a saved game's document; None for a game without letters. Raises SavedGameError for a damaged one."""
    phases = document.get("phases")
    if not isinstance(phases, list) or not any(isinstance(each, dict) and each.get("messages") for each in phases):
        return None
    log = ConductLog()
    standings: Standings = {}
    promises: dict[str, tuple[Told, ...]] = {}
    alliances: dict[int, tuple[str, ...]] = {}
    trust: dict[int, dict[tuple[str, str], tuple[int, int]]] = {}
    meanings: dict[str, dict[tuple[str, str], str]] = {}
    for phase in negotiated_phases(check_saved_game(document, name), name):
        log.add(phase.position, phase.orders, phase.results, phase.letters, phase.verdicts)
        standings = updated_standings(standings, phase.position, phase.orders, phase.verdicts)
        alliances[phase.position.year] = tuple(map(called, standing_alliances(standings, phase.position)))
        trust[phase.position.year] = {
            pair: (own.promises_kept, own.promises_broken)
            for pair, own in log.pairs.items()
            if own.promises_kept or own.promises_broken
        }
        if compact := _meanings(phase):
            meanings[phase.position.phase] = compact
        if phase.verdicts:
            promises[phase.position.phase] = tuple(map(_told, phase.verdicts))
    pairs = {
        pair: (own.promises_kept, own.promises_broken, own.effective_supports, own.phases)
        for pair, own in log.pairs.items()
    }
    return PressStory(promises, pairs, alliances, trust, meanings)


def _meanings(phase: NegotiatedPhase) -> dict[tuple[str, str], str]:
    """Sender and line -> plain English, for the lines of letters that were understood as the compact language."""
    return {
        (letter.sender, proposal.text): say(proposal, phase.position, letter.sender)
        for letter in phase.letters
        for proposal in letter.says
        if proposal.text in map(str.strip, letter.text.split("\n"))
    }


def _told(verdict: Verdict) -> Told:
    promise = verdict.promise
    what = {
        "PEACE": "peace",
        "ALLY": f"alliance against {promise.about.title()}",
        "DMZ": f"no move into {promise.about}",
        "DRAW": "a vote for a draw",
        "ORDER": promise.about,
    }[promise.kind]
    came_of = ("kept" if verdict.kept else "broken") if verdict.tested else ""
    return promise.giver, promise.partner, what, came_of
