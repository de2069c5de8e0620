"""What a checkpoint keeps beside the learner's state, in this version's form and in an earlier one's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.actors.checkpoint_extra import read_extra
from grpo_core.checkpoints.store import Checkpoint
from grpo_core.errors import CheckpointError
from grpo_core.training.learner_state import LearnerState
from grpo_core.types import RoleMeasures
from services.metrics.rolling_windows import RoleSummary, RoleWindows
from tests.measured import CHAIRS, DIPLOMACY

REPORT = {
    "version": 3, "metrics": {"entente_loss": 0.1}, "episodes": 14, "stale_episodes": 0, "tokens": 10, "busy_s": 1.0,
    "defective_orders": 0, "truncated": 0, "weight_bytes": 5, "buffer": {"waiting": 0},
}  # fmt: skip
SUMMARY = {"episodes": 2, "reward": 1.5, "reward_std": 0.5, "phases": 12.0}


def extra_of(measured: RoleMeasures, rows: dict[str, Any], report: Any) -> Any:
    stored = {"countries": rows, "report": report}
    return read_extra(Checkpoint(Path("checkpoints/3"), 3, LearnerState({}, {}), stored), measured)


def test_a_checkpoint_of_an_earlier_version_is_read_in_todays_form() -> None:
    figures = {"centers": 4.0, "win_rate": 0.0, "top_rate": 0.5, "survival_rate": 1.0}
    report = {**REPORT, "countries": {"FRANCE": SUMMARY | figures, "ITALY": None}, "country_episodes": {"FRANCE": 2}}
    rows = {"FRANCE": [[1.0, 4.0, 0.0, 1.0, 1.0, 12.0], [2.0, 4.0, 0.0, 0.0, 1.0, 12.0, "b7"]]}
    extra = extra_of(DIPLOMACY, rows, report)
    assert extra.report.roles["FRANCE"].values == figures
    assert extra.report.roles["ITALY"] is None
    assert extra.report.role_episodes == {"FRANCE": 2}
    windows = RoleWindows(DIPLOMACY)
    windows.load_state(extra.windows)
    assert windows.summary("FRANCE") == RoleSummary(2, 1.5, 0.5**0.5, 12.0, figures)


def test_another_worlds_checkpoint_has_its_own_measures() -> None:
    values = {"chips": -1.0, "showdown_rate": 0.0, "bet_rate": 1.0}
    report = {**REPORT, "roles": {"A": {**SUMMARY, "values": values}}, "role_episodes": {"A": 2}}
    extra = extra_of(CHAIRS, {"A": [[1.0, -1.0, 0.0, 1.0, 3.0, "b1"]]}, report)
    assert extra.report.roles["A"].values == values
    with pytest.raises(CheckpointError, match=r"trainer_state\.json is damaged: an episode has 5 facts"):
        extra_of(DIPLOMACY, {"A": [[1.0, -1.0, 0.0, 1.0, 3.0]]}, None)


@pytest.mark.parametrize("report", [1, {"countries": {"FRANCE": 1}}, {"countries": 1}, {**REPORT, "roles": {"A": 1}}])
def test_a_damaged_report_is_one_line(report: Any) -> None:
    with pytest.raises(CheckpointError, match="is damaged") as raised:
        extra_of(DIPLOMACY, {}, report)
    assert "\n" not in str(raised.value)
