"""Ratings on a terminal of 80 columns, with all seven countries of every player."""

from __future__ import annotations

import io

from rich.console import Console

from cluster.cli.population.population_tables import ratings_as_json, show_ratings
from opponents.ratings.book import RatingBook
from services.environments.diplomacy.position import POWERS
from services.environments.environment import RatingScale
from tests.unit.opponents.world_cases import diplomacy_book


def test_ratings_of_every_country_fit_80_columns() -> None:
    book = diplomacy_book()
    for player in ("learner", "policy/v1-GERMANY"):
        book.add(player)
    book.games.update(dict.fromkeys(("bot/random", *book.players), 0))
    out = io.StringIO()
    show_ratings(book, Console(file=out, width=80))
    text = out.getvalue()
    assert text.count("1000±693") == 2 * len(POWERS)  # the prior, which is as wide as it gets
    assert text.split().count("TUR") == 1
    assert {"policy/v1-GERMANY", "fixed"} <= set(text.split())


def test_columns_and_keys_follow_the_roles_of_the_world() -> None:
    roles = ("seat_1", "seat_2", "seat_3")
    book = RatingBook(roles, RatingScale.even(roles))
    book.add("learner")
    book.games["learner"] = 0
    out = io.StringIO()
    show_ratings(book, Console(file=out, width=80))
    assert {"seat_1", "seat_2", "seat_3"} <= set(out.getvalue().split())
    document = ratings_as_json(book, "seat")
    assert list(document) == ["players", "seats"]
    assert list(document["players"][0]["by_seat"]) == list(document["seats"]) == list(roles)
    assert list(ratings_as_json(diplomacy_book(), "country")) == ["players", "countries"]
