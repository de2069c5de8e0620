"""All dashboards, the most important first."""

from __future__ import annotations

from services.metrics.dashboards.countries import COUNTRIES
from services.metrics.dashboards.learning import LEARNING
from services.metrics.dashboards.machinery import MACHINERY
from services.metrics.dashboards.opponents import OPPONENTS

DASHBOARDS = (COUNTRIES, OPPONENTS, LEARNING, MACHINERY)
