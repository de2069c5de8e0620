"""Pages of saved games, with what a policy thinks of the decisions in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.errors import RunError
from cluster.evaluation.event_loop import run_in_loop
from cluster.evaluation.players.opening import newest, open_policy
from cluster.evaluation.records.decision_recorder import DecisionRecorder
from cluster.evaluation.records.game_origins import describe_player
from cluster.runs.progress_bars import AddBar
from opponents.champion.shipped import name_of_path
from opponents.player_names import policy_alone
from opponents.players.chat_players import ChatPlayers
from services.environments.diplomacy.game_origin import ORIGIN_KEY
from services.environments.diplomacy.measures.press.story import press_story
from services.environments.diplomacy.played_phases import PlayedPhase, played_phases
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rules.orders import check
from services.environments.diplomacy.saved_game import read_saved_game
from services.environments.playing import Decision, Policy
from services.environments.seat_player import SeatPlayer
from services.reports.game_viewer.comparison import comparison_page
from services.reports.game_viewer.decisions import GameDecisions
from services.reports.game_viewer.frames import read_saved_game as read_shown_game
from services.reports.game_viewer.game_viewer import Replay, decisions_beside, make_replay, replay_page
from services.reports.game_viewer.press import short_name
from services.reports.page import write_page


def write_replay(
    games: Sequence[Path],
    out: Path,
    *,
    policy: str | Path | None = None,
    seats: Sequence[str] = (),
    add_bar: AddBar | None = None,
) -> list[str]:
    """Write the page of one saved game, or of two side by side; return lines that say what it shows.

    ``policy`` is a checkpoint, a run or ``champion``, which is asked about every decision of ``seats``; without seats,
    of those that it played in the game, or else of all powers. Otherwise the decisions beside the games are shown, if
    there are any.

    Raises RunError for unknown powers, SavedGameError or ReportError for a file that is no saved game, CheckpointError
    for a folder that is no usable checkpoint, StorageError if the page cannot be written.
    """
    powers = [seat.strip().upper() for seat in seats]
    if unknown := [power for power in powers if power not in POWERS]:
        raise RunError(f"there is no power {unknown[0]!r}; the seven are {', '.join(POWERS)}")
    chosen = None if policy is None else policy_alone(newest(name_of_path(policy)))
    asked = None if chosen is None else _Asked(chosen, powers, add_bar)
    replays = [_replay(game, asked) for game in games]
    write_page(out, replay_page(replays[0]) if len(replays) == 1 else comparison_page(replays[0], replays[1]))
    return [_line(game, replay) for game, replay in zip(games, replays, strict=True)]


class _Asked:
    """A policy that is asked what it thinks of the decisions in saved games."""

    def __init__(self, folder: str, powers: Sequence[str], add_bar: AddBar | None) -> None:
        self._player: Policy = open_policy(folder, ChatPlayers({}))
        self._described = describe_player(folder, ChatPlayers({}))
        self._powers = powers
        self._add_bar = add_bar

    def about(self, game: Path) -> GameDecisions:
        """Ask about every decision of a game's powers."""
        document = read_saved_game(game)
        powers = self._powers or _played_by(document, self._described) or POWERS
        phases = list(played_phases(document, str(game)))
        recorder = DecisionRecorder(made=self._described.player)

        async def ask() -> None:
            advance = None if self._add_bar is None else self._add_bar(f"asking {self._described.player}", len(phases))
            for phase in phases:
                await self._ask(recorder, phase, powers)
                if advance is not None:
                    advance(1)

        run_in_loop(ask)
        return recorder.recorded(str(document.get("id") or game.stem))

    async def _ask(self, recorder: DecisionRecorder, phase: PlayedPhase, powers: Sequence[str]) -> None:
        position = phase.position
        for power in position.to_move:
            if power in powers:
                orders = check(phase.orders.get(power, ()), position, power).actions
                name = self._described.player
                await recorder.record(name, self._player, position, power, Decision(orders), played=False)


def _replay(game: Path, asked: _Asked | None) -> Replay:
    document = read_shown_game(game)
    decisions, note = decisions_beside(game)
    if asked is not None:
        decisions, note = asked.about(game), ""
    return make_replay(document, decisions, note, tell_press=press_story, name=short_name(game))


def _played_by(document: Mapping[str, Any], player: SeatPlayer) -> list[str]:
    """The powers that a game's record says these weights played."""
    told = document.get(ORIGIN_KEY)
    seats = told.get("seats") if isinstance(told, dict) else None
    if not isinstance(seats, dict) or player.checksum is None:
        return []
    return [
        power
        for power in POWERS
        if isinstance(seat := seats.get(power), dict) and seat.get("checksum") == player.checksum
    ]


def _line(game: Path, replay: Replay) -> str:
    found = sum(map(len, replay.data["decisions"].values()))
    shown = f"{found} decisions" if found else "no recorded decisions; --policy RUN asks a policy about them"
    return f"{game}: {len(replay.film.frames)} phases, {shown}"
