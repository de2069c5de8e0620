"""All dashboards, the most important first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grpo_core.types import RoleMeasures
from services.metrics.dashboards.countries import COUNTRY_PANELS, ResultPanel, board
from services.metrics.dashboards.learning import LEARNING
from services.metrics.dashboards.machinery import MACHINERY
from services.metrics.dashboards.opponents import opponents
from services.metrics.dashboards.panels import Dashboard

# Known roles have panels of their own; those of others follow from their measures.
_PANELS: Mapping[str, Sequence[ResultPanel]] = {"country": COUNTRY_PANELS}


def dashboards(worlds: Sequence[RoleMeasures]) -> tuple[Dashboard, ...]:
    """Make the boards of each world's roles, and those that all worlds share."""
    boards = {measured.role_name: board(measured, _PANELS.get(measured.role_name, ())) for measured in worlds}
    return (*boards.values(), opponents(worlds), LEARNING, MACHINERY)
