"""Rating matches: who sits where, and how one is played."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opponents.play import play_game
from opponents.players.policy import Policy
from opponents.ratings.game_score import GameScore
from opponents.seeding import derive_seed
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS


@dataclass(frozen=True, slots=True)
class RatingGame:
    """One match to play."""

    seats: Mapping[str, str]  # power -> player
    seed: int


class DatedGame(DiplomacyGame):
    """A game that remembers in which phase each power fell, counted from 0."""

    def __init__(self, until_year: int, game_id: str | None = None) -> None:
        super().__init__(until_year, game_id)
        self.eliminated: dict[str, int] = {}  # of those who own no centre now
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
    """Mixed tables in which every player has every country ``games_per_country`` times, its neighbours shuffled.

    Where some play one country alone, those who play any have the other countries equally often among themselves and
    sit there again as long as there are games.

    Args:
        players: id -> the only country it plays, or None.
        games_per_country: seats of a player as each country it plays.
        seed: of the shuffles and games.

    Raises:
        ValueError: nobody plays some country.
    """
    columns = {power: sorted(player for player, only in players.items() if only in (None, power)) for power in POWERS}
    if empty := [power for power, column in columns.items() if not column]:
        raise ValueError(f"nobody plays {', '.join(empty)}")
    games = games_per_country * max(map(len, columns.values()))
    seats = {power: _passes(column, games, derive_seed(seed, "seats", power)) for power, column in columns.items()}
    return [
        RatingGame({power: seats[power][number] for power in POWERS}, derive_seed(seed, "game", number))
        for number in range(games)
    ]


def _passes(players: Sequence[str], length: int, seed: int) -> list[str]:
    """Everybody once in a random order, again in another, and so on."""
    shuffled, drawn = random.Random(seed), list[str]()
    while len(drawn) < length:
        drawn += shuffled.sample(players, len(players))
    return drawn[:length]


async def play_rating_game(match: RatingGame, players: Mapping[str, Policy], until_year: int) -> GameScore:
    """Play one match to the end of ``until_year``."""
    game = DatedGame(until_year, game_id=f"rating-{match.seed}")
    record = await play_game(game, {power: players[player] for power, player in match.seats.items()}, match.seed)
    return GameScore.of(match.seats, record.outcome, game.eliminated)
