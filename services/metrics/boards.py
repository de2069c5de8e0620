"""All boards, in the order to look at them."""

from __future__ import annotations

from services.metrics.board_countries import COUNTRIES
from services.metrics.board_learning import LEARNING
from services.metrics.board_machinery import MACHINERY
from services.metrics.board_opponents import OPPONENTS

BOARDS = (COUNTRIES, OPPONENTS, LEARNING, MACHINERY)
