"""Keeps the games of an evaluation as files: who sat where, and what they are called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from cluster.evaluation.records.game_origins import describe_open, describe_player
from cluster.evaluation.tables.table import PlayerSpec, SavedTable, Table
from cluster.runs.provenance import commit
from opponents.players.chat_players import ChatPlayers
from services.environments.seat_player import SeatPlayer

_LONGEST_NAME = 60  # characters of a player's name in a file's
_DIGITS = 12


@dataclass(frozen=True, slots=True)
class GameFolder:
    """A folder for the games of an evaluation, and the remote players that its records describe."""

    folder: Path
    remotes: ChatPlayers
    ending: str  # of the games, as rows say it

    def described(self, specs: Sequence[PlayerSpec]) -> list[SeatPlayer]:
        """The players as records name them. Raises as ``describe_player``."""
        return [
            describe_player(spec.player, self.remotes, temperature=spec.temperature, evaluation=True)
            if isinstance(spec.player, str)
            else describe_open(spec.player)
            for spec in specs
        ]

    def saved(self, tables: Iterable[Table], described: Sequence[SeatPlayer]) -> list[Table]:
        """The tables, each of which is to be kept as PLAYER-against-OTHERS-ROLE-NUMBER-DIGEST.json.

        ``described`` are the players of the tables' numbers. The digest is that of who plays, the seed and the ending,
        so that no other game has this name.
        """
        return [replace(table, saved=self._saved(table, described)) for table in tables]

    def _saved(self, table: Table, described: Sequence[SeatPlayer]) -> SavedTable:
        players = {seat: described[number] for seat, number in table.seats.items()}
        others = sorted({each.player for seat, each in players.items() if seat != table.role})
        against = ["against", *map(_plain, others)] if others else []
        decisive = [repr(sorted(players.items())), table.seats[table.role], table.seed, self.ending]
        digest = sha256(repr(decisive).encode()).hexdigest()[:_DIGITS]
        parts = [_plain(players[table.role].player), *against, table.role, f"{table.number:04d}", digest]
        return SavedTable(str(self.folder / f"{'-'.join(parts)}.json"), players, commit())


def _plain(name: str) -> str:
    """A player's name as a part of a file's: letters, digits, dots and _."""
    return re.sub(r"[^A-Za-z0-9._]+", "_", name)[-_LONGEST_NAME:]
