"""Saves and loads a run's ratings, ``ratings.json``: all that a ``RatingBook`` holds, bit for bit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from grpo_core.errors import one_line
from grpo_core.files import read_bytes
from opponents.population.files import decode_json, schema_of, write_document
from opponents.ratings.belief import Prior
from opponents.ratings.book import RatingBook, RatingsError
from opponents.ratings.likelihood import Array
from services.environments.environment import RatingScale

RATINGS = "ratings.json"  # in a run's folder
SCHEMA_VERSION = 1
_LARGEST = 1e6  # points; ratings are within some thousands


class _Anchor(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    points: list[float]  # by role; all lists by role are in the order of the world's roles


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
    countries: list[float]  # what each role is worth
    players: list[_Player]
    counts: list[_Count]
    covariance: bytes  # roles first, then each player's strength and deviations: lower triangle, float64
    roles: list[str] | None = None  # None: not said


def save_ratings(book: RatingBook, path: Path) -> None:
    """Replace the file in one step. Raises StorageError if it cannot be written."""
    belief, seats = book.belief, len(book.roles)
    document = _Document(
        schema=SCHEMA_VERSION,
        anchors=[_Anchor(player, [points[role] for role in book.roles]) for player, points in book.anchors.items()],
        prior=belief.prior,
        countries=belief.mean[:seats].tolist(),
        players=[
            _Player(player, float(block[0]), block[1:].tolist())
            for player, block in zip(belief.players, belief.mean[seats:].reshape(-1, belief.block), strict=True)
        ],
        counts=[_Count(player, games, book.seats[player]) for player, games in book.games.items()],
        covariance=belief.covariance[np.tril_indices(len(belief.mean))].astype("<f8").tobytes(),
        roles=list(book.roles),
    )
    write_document(path, document)


def saved_ratings(run_dir: Path, roles: Sequence[str], scale: RatingScale) -> RatingBook:
    """Load a run's ratings; before the first game only those of the scale's anchors. Raises as ``load_ratings``."""
    path = run_dir / RATINGS
    return load_ratings(path, roles) if os.path.lexists(path) else RatingBook(roles, scale)


def load_ratings(path: Path, roles: Sequence[str]) -> RatingBook:
    """Read a ratings file with its anchors.

    Raises RatingsError if it is missing, damaged, of another kind or schema, or of other ``roles`` than these.
    """
    try:
        text = read_bytes(path)
    except OSError as error:
        raise RatingsError(f"cannot read the ratings {path}: {error.strerror}") from error
    try:
        schema = schema_of(text)
        if schema != SCHEMA_VERSION:
            raise RatingsError(f"{path} has ratings schema {schema}; this version reads {SCHEMA_VERSION}")
        return _book_of(decode_json(text, _Document), tuple(roles))
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise RatingsError(f"{path} is not a ratings file, or is damaged: {one_line(error, 200)}") from error


def _book_of(document: _Document, roles: tuple[str, ...]) -> RatingBook:
    """The book of a document; ``ValueError`` if it is of other roles, its parts disagree or are not finite."""
    if document.roles not in (None, list(roles)):
        raise ValueError(f"its roles are {', '.join(document.roles or ())}, not {', '.join(roles)}")
    players = [player.id for player in document.players]
    ids = [*players, *(anchor.id for anchor in document.anchors)]
    if len(set(ids)) < len(ids):
        raise ValueError("a player is in it twice")
    by_role: list[list[float]] = [anchor.points for anchor in document.anchors]
    by_role += [document.countries, *(player.deviations for player in document.players)]
    prior = document.prior
    numbers = [prior.mu, prior.sigma, prior.deviation_sigma, prior.role_sigma]
    numbers += [player.strength for player in document.players]
    if any(abs(number) > _LARGEST for values in (numbers, *by_role) for number in values):
        raise ValueError(f"a rating in it is beyond {_LARGEST:g} points")
    counted = (len(count.seats) for count in document.counts)
    if any(length != len(roles) for length in (*map(len, by_role), *counted)):
        raise ValueError(f"it must have {len(roles)} numbers where there is one for each role")
    anchors = {anchor.id: dict(zip(roles, anchor.points, strict=True)) for anchor in document.anchors}
    worth = dict(zip(roles, document.countries, strict=True))
    book = RatingBook(roles, RatingScale(worth, anchors, {}), document.prior)
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
