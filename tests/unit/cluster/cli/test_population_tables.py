"""Ratings on a terminal of 80 columns, with all seven countries of every player."""

from __future__ import annotations

import io

from rich.console import Console

from cluster.cli.population_tables import show_ratings
from opponents.ratings.book import RatingBook
from services.environments.diplomacy.position import POWERS


def test_ratings_of_every_country_fit_80_columns() -> None:
    book = RatingBook()
    for player in ("learner", "policy/v1-GERMANY"):
        book.add(player)
    book.games.update(dict.fromkeys(("bot/random", *book.players), 0))
    out = io.StringIO()
    show_ratings(book, Console(file=out, width=80))
    text = out.getvalue()
    assert text.count("1000±693") == 2 * len(POWERS)  # the prior, which is as wide as it gets
    assert text.split().count("TUR") == 1
    assert {"policy/v1-GERMANY", "fixed"} <= set(text.split())
