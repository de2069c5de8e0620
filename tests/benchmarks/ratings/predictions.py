"""What ratings predict for a game: who finishes above whom, and each seat's share; means over the uncertainty."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from opponents.ratings.book import RatingBook
from opponents.ratings.likelihood import Array

# Shares of the sum of squares grow with exp(SHARE_SLOPE * strength): a strong power need not come first to have one.
SHARE_SLOPE = 0.71
# E[logistic(x)] is about logistic(mean / sqrt(1 + 0.368 variance)) for a normal x (Daunizeau, arXiv 1703.00091).
_SMOOTHING = 0.368


def win_probability(book: RatingBook, role: str, rival: str, seats: Mapping[str, str]) -> float:
    """Probability that seat ``role`` finishes above seat ``rival``; a tie counts as half."""
    return float(_chances_above(book, seats, slope=1.0)[book.roles.index(role), book.roles.index(rival)])


def expected_share(book: RatingBook, role: str, seats: Mapping[str, str], slope: float = SHARE_SLOPE) -> float:
    """Expected sum-of-squares share of a seat, in (0, 1): a softmax of the strengths; those of a game sum to 1."""
    above = _chances_above(book, seats, slope)
    np.fill_diagonal(above, 1.0)
    shares = 1 / ((1 / above).sum(axis=1) - (len(book.roles) - 1))
    return float(shares[book.roles.index(role)] / shares.sum())


def _chances_above(book: RatingBook, seats: Mapping[str, str], slope: float) -> Array:
    mean, _, covariance = book.strengths(seats)
    variance = np.diag(covariance)
    spread = np.maximum(variance[:, None] + variance[None, :] - 2 * covariance, 0.0)
    lead = slope * (mean[:, None] - mean[None, :]) / np.sqrt(1 + _SMOOTHING * slope**2 * spread)
    chances: Array = 1 / (1 + np.exp(-lead))
    return chances
