"""``entente drill`` with many kinds of faults in one training, and a reconciliation that balances."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.support.drill_of_kinds import check_drill

pytestmark = pytest.mark.timeout(2400)

KINDS = ("rollout", "server", "driver", "checkpoint", "full", "poison", "block", "future", "oversized", "foreign")


def test_a_run_recovers_from_every_kind_of_fault_and_loses_no_episode(tmp_path: Path) -> None:
    check_drill(tmp_path, KINDS, restarting=("server", "checkpoint"), poison_episodes=6)  # two of them of the block
