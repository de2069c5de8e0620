"""Saves and loads a run's ratings, ``ratings.json``: all that a ``RatingBook`` holds, bit for bit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from grpo_core.errors import one_line
from grpo_core.files import read_bytes
from opponents.population.files import decode_json, schema_of, write_document
from opponents.ratings.belief import BLOCK, Prior
from opponents.ratings.book import RatingBook, RatingsError
from opponents.ratings.likelihood import SEATS, Array
from services.environments.diplomacy.position import POWERS

RATINGS = "ratings.json"  # in a run's folder
SCHEMA_VERSION = 1
_LARGEST = 1e6  # points; ratings are within some thousands


class _Anchor(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    points: list[float]  # by country; all lists by country are in the order of POWERS


class _Player(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    strength: float
    deviations: list[float]


class _Count(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    games: Annotated[int, msgspec.Meta(ge=0)]
    seats: list[Annotated[int, msgspec.Meta(ge=0)]]


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    anchors: list[_Anchor]
    prior: Prior
    countries: list[float]
    players: list[_Player]
    counts: list[_Count]
    covariance: bytes  # countries first, then each player's strength and deviations: lower triangle, float64


def save_ratings(book: RatingBook, path: Path) -> None:
    """Replace the file in one step. Raises StorageError if it cannot be written."""
    belief = book.belief
    document = _Document(
        schema=SCHEMA_VERSION,
        anchors=[_Anchor(player, [points[power] for power in POWERS]) for player, points in book.anchors.items()],
        prior=belief.prior,
        countries=belief.mean[:SEATS].tolist(),
        players=[
            _Player(player, float(block[0]), block[1:].tolist())
            for player, block in zip(belief.players, belief.mean[SEATS:].reshape(-1, BLOCK), strict=True)
        ],
        counts=[_Count(player, games, book.seats[player]) for player, games in book.games.items()],
        covariance=belief.covariance[np.tril_indices(len(belief.mean))].astype("<f8").tobytes(),
    )
    write_document(path, document)


def saved_ratings(run_dir: Path) -> RatingBook:
    """Load a run's ratings; before the first game only those of the anchors. Raises RatingsError if damaged."""
    path = run_dir / RATINGS
    return load_ratings(path) if os.path.lexists(path) else RatingBook()


def load_ratings(path: Path) -> RatingBook:
    """Read a ratings file with its anchors; RatingsError if it is missing, damaged, or of another kind or schema."""
    try:
        text = read_bytes(path)
    except OSError as error:
        raise RatingsError(f"cannot read the ratings {path}: {error.strerror}") from error
    try:
        schema = schema_of(text)
        if schema != SCHEMA_VERSION:
            raise RatingsError(f"{path} has ratings schema {schema}; this version reads {SCHEMA_VERSION}")
        return _book_of(decode_json(text, _Document))
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise RatingsError(f"{path} is not a ratings file, or is damaged: {one_line(error, 200)}") from error


def _book_of(document: _Document) -> RatingBook:
    """The book of a document; ``ValueError`` if parts contradict each other or are not finite."""
    players = [player.id for player in document.players]
    ids = [*players, *(anchor.id for anchor in document.anchors)]
    if len(set(ids)) < len(ids):
        raise ValueError("a player is in it twice")
    sevens: list[list[float]] = [anchor.points for anchor in document.anchors]
    sevens += [document.countries, *(player.deviations for player in document.players)]
    prior = document.prior
    numbers = [prior.mu, prior.sigma, prior.deviation_sigma, prior.country_sigma]
    numbers += [player.strength for player in document.players]
    if any(abs(number) > _LARGEST for values in (numbers, *sevens) for number in values):
        raise ValueError(f"a rating in it is beyond {_LARGEST:g} points")
    if any(len(values) != SEATS for values in sevens) or any(len(count.seats) != SEATS for count in document.counts):
        raise ValueError(f"it must have {SEATS} numbers where there is one for each country")
    book = RatingBook(
        {anchor.id: dict(zip(POWERS, anchor.points, strict=True)) for anchor in document.anchors},
        document.prior,
        dict(zip(POWERS, document.countries, strict=True)),
    )
    for player in players:
        book.add(player)
    blocks = [[player.strength, *player.deviations] for player in document.players]
    book.belief.mean = np.concatenate([document.countries, *blocks]).astype(np.float64)
    book.belief.covariance = _symmetric(document.covariance, len(book.belief.mean))
    book.games = {count.id: count.games for count in document.counts}
    book.seats = {count.id: list(count.seats) for count in document.counts}
    return book


def _symmetric(packed: bytes, size: int) -> Array:
    """The covariance from its lower triangle; ``ValueError`` if it is not a covariance."""
    triangle = np.frombuffer(packed, "<f8") if len(packed) % 8 == 0 else np.zeros(0)
    if triangle.size != size * (size + 1) // 2:
        raise ValueError(f"its covariance is {len(packed)} bytes, not those of {size} numbers")
    if not (np.abs(triangle) <= _LARGEST**2).all():  # NaN is not either
        raise ValueError("its covariance is not finite, or beyond that of any rating")
    matrix = np.zeros((size, size))
    matrix[np.tril_indices(size)] = triangle
    matrix += np.tril(matrix, -1).T
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < -1e-6 * float(np.abs(triangle).max()):
        raise ValueError(f"its covariance has a negative variance, {smallest:.3g}")
    return matrix
