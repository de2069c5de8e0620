"""Prioritised play: who teaches the most is met the most (Vinyals et al., AlphaStar, Nature 2019, "PFSP").

Arrays have one entry for each of the N members that may be drawn; p is the learner's pairwise score against each, in
[0, 1].
"""

from __future__ import annotations

from opponents.matchmaking.weights import Weights


def hard(scores: Weights) -> Weights:
    """(1 - p)²: whoever beats the learner, and the more so the surer it does."""
    return (1 - scores) ** 2


def variance(scores: Weights) -> Weights:
    """p (1 - p): the learner's equals, against whom a game's end is least certain."""
    return scores * (1 - scores)
