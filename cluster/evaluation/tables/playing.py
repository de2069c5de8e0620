"""Opens the players of tables and plays them, many at once where a player computes elsewhere than in Python."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from cluster.evaluation.players.opening import open_policy
from cluster.evaluation.tables.table import Played, PlayerSpec, SavedTable, Table
from grpo_core.checkpoints.atomic_write import write_atomically
from opponents.play import play_game
from opponents.players.chat_players import ChatPlayers
from opponents.population.member import package_version
from services.environments.environment import World
from services.environments.playing import Bot, Game, Policy, SamplingPolicy

CONCURRENT_GAMES = 64  # of one process; an engine batches their decisions
SLOW_GAMES = 4  # of players that compute in Python between the decisions that an engine batches


def games_at_once(players: Collection[Policy]) -> int:
    """How many games of these players one process plays best at once.

    Bots never wait, so that a second game would only need memory; where slow players are, many games at once would only
    end later.
    """
    bots = [player for player in players if isinstance(player, Bot)]
    if len(bots) == len(players) or any(bot.is_slow for bot in bots):
        return 1
    return SLOW_GAMES if any(getattr(player, "is_slow", False) for player in players) else CONCURRENT_GAMES


class OpenTables:
    """Players that are open in this process, and the world whose games they play."""

    def __init__(self, world: World, players: Sequence[PlayerSpec], remotes: ChatPlayers) -> None:
        """Open all players; ``world`` is as they play it. Raises as ``open_policy``."""
        self._world = world
        self._players = [self._open(spec, remotes) for spec in players]

    @property
    def concurrent_games(self) -> int:
        """How many games to play at once."""
        return games_at_once(self._players)

    async def play(self, table: Table) -> Played:
        """Play one game to its end. Raises StorageError if a game that is to be kept cannot be written."""
        game = self._world.new_game(table.start, table.role, table.seed, game_id=f"evaluation-{table.seed}")
        seats = {role: self._players[number] for role, number in table.seats.items()}
        player = seats[table.role]
        if table.temperature is not None and isinstance(player, SamplingPolicy):
            seats[table.role] = player.at(table.temperature)
        result = (await play_game(game, seats, table.seed)).result
        if table.saved is not None:
            self._save(table.saved, game, table.seed)
        outcomes = {role: result.outcomes[role] for role in table.measured}
        notes = {role: result.notes.get(role, "") for role in table.measured}
        return Played(table, outcomes, notes, result.standing)

    async def play_all(self, tables: Iterable[Table], done: Callable[[Played], None]) -> None:
        """Play all, ``concurrent_games`` at once, and report each game when it is over."""
        running = asyncio.Semaphore(self.concurrent_games)

        async def play_one(table: Table) -> None:
            async with running:
                played = await self.play(table)
            done(played)

        async with asyncio.TaskGroup() as group:
            for table in tables:
                group.create_task(play_one(table))

    def _save(self, wanted: SavedTable, game: Game, seed: int) -> None:
        saved = self._world.saved_game(game, wanted.players, seed, wanted.commit, package_version())
        if saved is not None:
            write_atomically(Path(wanted.path), saved.encode() + b"\n")

    def _open(self, spec: PlayerSpec, remotes: ChatPlayers) -> Policy:
        return open_policy(spec.player, remotes, world=self._world, temperature=spec.temperature, evaluation=True)
