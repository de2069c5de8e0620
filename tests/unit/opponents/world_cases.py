"""Helpers: worlds that the opponents are tested with, and the standings of their games."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_core.section import Settings
from grpo_core.types import Measure
from opponents.ratings.belief import PRIOR, Prior
from opponents.ratings.book import RatingBook
from opponents.ratings.game_score import GameScore
from services.environments.diplomacy.scoring import shares
from services.environments.diplomacy.scoring.calibration import ANCHORS, COUNTRY_POINTS
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.environments.environment import RatingScale, World
from services.environments.playing import Game, Parts, Standing
from services.environments.starts import StartSchedule


def diplomacy(until_year: int = 1910) -> Diplomacy:
    return Diplomacy(GameSettings(until_year=until_year))


def diplomacy_book(prior: Prior = PRIOR) -> RatingBook:
    return RatingBook(Diplomacy(GameSettings()).roles, RatingScale(COUNTRY_POINTS, ANCHORS, {}), prior)


def standing(
    centers: Mapping[str, int], solo: str | None = None, eliminated: Mapping[str, int] | None = None
) -> Standing:
    """Of a game of Diplomacy; ``eliminated`` are the phases in which powers fell, of all that did or of none."""
    is_open = solo is not None or (not eliminated and min(centers.values()) == 0)
    return Standing(shares.sum_of_squares(centers, solo), shares.places(centers, solo, eliminated), is_open)


def score(
    seats: Mapping[str, str],
    centers: Mapping[str, int],
    solo: str | None = None,
    eliminated: Mapping[str, int] | None = None,
) -> GameScore:
    return GameScore(seats, standing(centers, solo, eliminated))


class Cards(World):
    """Three seats of a card game; its bots' strength is not known."""

    name = "cards"
    role_name = "seat"
    measures = (Measure("won", "won", "Won", "share of games won", "share"),)
    game_settings = Settings

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)

    @property
    def roles(self) -> tuple[str, ...]:
        return ("C", "A", "B")

    @property
    def reward_weights(self) -> Parts:
        return {"chips": 1.0}

    def new_game(self, start: str, role: str, seed: int, game_id: str = "") -> Game:
        raise NotImplementedError


class KnownCards(Cards):
    """The card game with one bot that fixes the scale."""

    @property
    def rating_scale(self) -> RatingScale:
        even = RatingScale.even(self.roles)
        return RatingScale(even.worth, {"bot/fold": dict.fromkeys(self.roles, 1000.0)}, even.base_shares)


class HarderDeals:
    """Deals of a level for each seat, which rises by one with each block that is won, and falls with each other."""

    def __init__(self) -> None:
        self.levels: dict[str, int] = {}

    def draw(self, role: str, seed: int) -> str:
        return f"{role}-{self.levels.get(role, 0)}-{seed % 100}"

    def record(self, role: str, start: str, outcomes: Sequence[Parts]) -> None:
        won = sum(outcome["won"] for outcome in outcomes) / len(outcomes)
        self.levels[role] = max(0, self.levels.get(role, 0) + (1 if won > 0.5 else -1))

    def metrics(self) -> Mapping[str, float]:
        return {"entente_deal_level": float(sum(self.levels.values()))}

    def state(self) -> Any:
        return self.levels

    def load_state(self, state: Any) -> None:
        if not isinstance(state, dict) or not all(isinstance(level, int) for level in state.values()):
            raise ValueError("levels must be whole numbers by seat")
        self.levels = state


class Deals(Cards):
    """The card game with a schedule of deals."""

    def starts(self) -> StartSchedule:
        return HarderDeals()


class Patience(Deals):
    """One seat at each table, in three variants, so that no other player is needed."""

    name = "patience"
    role_name = "variant"
    measures = (Measure("laid_out", "won", "Laid out", "share of games laid out", "share"),)
    has_opponents = False


class Chess(Cards):
    """Two seats, one of which is known to be worth more, and a bot of known strength."""

    name = "chess"
    role_name = "colour"

    @property
    def roles(self) -> tuple[str, ...]:
        return ("white", "black")

    @property
    def rating_scale(self) -> RatingScale:
        anchors = {"bot/fold": {"white": 900.0, "black": 920.0}, "bot/raise": {"white": 1200.0, "black": 1180.0}}
        return RatingScale({"white": 20.0, "black": -20.0}, anchors, {"white": 0.53, "black": 0.47})


def finished(places: Sequence[Sequence[str]], *, last_is_open: bool = False) -> Standing:
    """A standing with these places; those in the first share the whole score."""
    first = set(places[0])
    shares = {role: (role in first) / len(first) for place in places for role in place}
    return Standing(shares, tuple(map(tuple, places)), last_is_open)
