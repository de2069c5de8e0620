"""The table of what feeds each panel is complete and up to date; a system test takes each metric from its source."""

from __future__ import annotations

from services.metrics.catalogue import whole_table
from tests.measured import DIPLOMACY
from tests.paths import ROOT
from tests.system.support.monitoring.panel_sources import SOURCES, shown_metrics, table


def test_every_metric_of_the_catalogue_and_of_a_panel_has_a_source() -> None:
    assert SOURCES.keys() == shown_metrics()
    assert {metric.name for metric in whole_table(DIPLOMACY)} <= SOURCES.keys()


def test_the_committed_table_is_up_to_date() -> None:
    committed = (ROOT / "services" / "metrics" / "PANELS.md").read_text()
    assert committed == table(), "python -m tests.system.support.monitoring.panel_sources > services/metrics/PANELS.md"
