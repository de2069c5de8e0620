"""Rating matches: draws their seats, and plays them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opponents.play import play_game
from opponents.players.policy import Policy
from opponents.ratings.game_score import GameScore
from opponents.seeds import derive_seed
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS


@dataclass(frozen=True, slots=True)
class RatingGame:
    """One match to play."""

    seats: Mapping[str, str]  # power -> player
    seed: int


class DatedGame(DiplomacyGame):
    """A game that records in which phase (counted from 0) each power was eliminated."""

    def __init__(self, until_year: int, game_id: str | None = None) -> None:
        super().__init__(until_year, game_id)
        self.eliminated: dict[str, int] = {}  # powers that own no centre now
        self._processed = 0

    def process(self) -> None:
        """Adjudicate, as ``DiplomacyGame`` does."""
        super().process()
        for power, count in self.centers().items():
            if count:
                self.eliminated.pop(power, None)
            else:
                self.eliminated.setdefault(power, self._processed)
        self._processed += 1


def rating_games(players: Mapping[str, str | None], games_per_country: int, seed: int) -> list[RatingGame]:
    """Draw mixed games in which each player has each country ``games_per_country`` times, among shuffled neighbours.

    ``players`` maps an id to the only country that it plays, or to None for any. If a country has fewer players than
    others, its players repeat until all games are full.

    Raises ValueError if a country has no player.
    """
    columns = {power: sorted(player for player, only in players.items() if only in (None, power)) for power in POWERS}
    if empty := [power for power, column in columns.items() if not column]:
        raise ValueError(f"no player for {', '.join(empty)}")
    games = games_per_country * max(map(len, columns.values()))
    seats = {power: _passes(column, games, derive_seed(seed, "seats", power)) for power, column in columns.items()}
    return [
        RatingGame({power: seats[power][number] for power in POWERS}, derive_seed(seed, "game", number))
        for number in range(games)
    ]


def _passes(players: Sequence[str], length: int, seed: int) -> list[str]:
    """Draw ``length`` names: all players in a random order, then again in another order, and so on."""
    shuffled, drawn = random.Random(seed), list[str]()
    while len(drawn) < length:
        drawn += shuffled.sample(players, len(players))
    return drawn[:length]


async def play_rating_game(match: RatingGame, players: Mapping[str, Policy], until_year: int) -> GameScore:
    """Play one match to the end of ``until_year``."""
    game = DatedGame(until_year, game_id=f"rating-{match.seed}")
    record = await play_game(game, {power: players[player] for power, player in match.seats.items()}, match.seed)
    return GameScore.of(match.seats, record.outcome, game.eliminated)
