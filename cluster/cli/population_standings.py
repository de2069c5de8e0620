"""How the members of a population fare: their ratings, and how the learner does against them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from opponents.league.league import RATINGS, RESULTS
from opponents.league.results import Results
from opponents.ratings.book import Rating, RatingBook
from opponents.ratings.storage import load_ratings


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of one member."""

    rating: Rating | None = None  # mean over the countries; None: it was in no game yet, and is no anchor
    games: int = 0  # that the learner played against it
    score: float | None = None  # the learner's pairwise score there, in (0, 1), older games fading; None: no games


def read_standings(run: Path, members: Iterable[str]) -> Mapping[str, Standing]:
    """Each member's, from a run's folder; a run that has rated nobody yet has the anchors' ratings alone.

    Raises:
        PopulationError: a file is damaged.
    """
    book = load_ratings(run / RATINGS) if (run / RATINGS).exists() else RatingBook()
    results = Results.load(run / RESULTS, math.inf)
    games = results.games
    known = {*book.games, *book.anchors}
    return {
        member: Standing(
            book.rating(member) if member in known else None,
            games.get(member, 0),
            results.score(member) if games.get(member) else None,
        )
        for member in members
    }


def standing_as_json(standing: Standing) -> dict[str, Any]:
    """Plain JSON."""
    found = asdict(standing)
    if standing.rating is not None:
        found["rating"]["interval95"] = list(standing.rating.interval)
    return found
