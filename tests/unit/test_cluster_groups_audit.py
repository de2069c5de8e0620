import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster import cli
from cluster.bench.learner import ragged_episodes
from cluster.config import Config, dump_config
from cluster.errors import RunError
from cluster.groups_audit import audit_groups, explained_variance, find_leaks, read_records
from grpo_core.learner import Learner
from grpo_core.models import make_small_model
from grpo_core.settings import GroupingSettings, LearnerSettings, PolicySettings
from grpo_core.types import Batch

GROUPS = st.lists(
    st.lists(st.floats(-5, 5, allow_nan=False).map(lambda x: round(x, 3)), min_size=2, max_size=6),
    min_size=1,
    max_size=5,
)


def group(values: list[float], level: str = "country", **changes: Any) -> dict[str, Any]:
    record = {
        "key": ["FRANCE"],
        "level": level,
        "size": len(values),
        "judged": len(values),
        "mean": float(np.mean(values)),
        "std": float(np.std(values, ddof=1)),
        "zero": max(values) == min(values),
    }
    return record | changes


def record(version: int, groups: list[dict[str, Any]], **metrics: float | None) -> dict[str, Any]:
    return {
        "schema": 1,
        "version": version,
        "keys": ["country+phase", "country"],
        "outcome_keys_allowed": False,
        "groups": groups,
        "metrics": metrics,
    }


def a_run(folder: Path, records: list[dict[str, Any]]) -> Path:
    (folder / "audit").mkdir(parents=True)
    (folder / "config.toml").write_text(dump_config(Config()))
    for one in records:
        (folder / "audit" / f"{one['version']:06d}.json").write_text(json.dumps(one))
    return folder


@settings(deadline=None)
@given(st.lists(GROUPS, min_size=1, max_size=3))
def test_explained_variance_is_that_of_the_samples_themselves(updates: list[list[list[float]]]) -> None:
    total = residual = left_out = 0.0
    for groups in updates:
        center = np.mean([value for values in groups for value in values])
        for values in groups:
            for index, value in enumerate(values):
                others = values[:index] + values[index + 1 :]
                total += (value - center) ** 2
                residual += (value - np.mean(values)) ** 2
                left_out += (value - np.mean(others)) ** 2
    found = explained_variance([[group(values) for values in groups] for groups in updates])
    if total < 1e-9:
        assert found is None or total > 0
    else:
        assert found is not None
        assert found == pytest.approx((1 - residual / total, 1 - left_out / total), abs=1e-6, rel=1e-6)


def test_progress_between_updates_explains_nothing() -> None:
    early, late = [group([0.0, 1.0]), group([1.0, 0.0])], [group([50.0, 51.0]), group([51.0, 50.0])]
    found = explained_variance([early, late])
    assert found is not None
    assert found[0] == 0
    assert found[1] == pytest.approx(1 - 8 / 2)  # each of eight is one away from the other; each half from the mean


def test_nothing_varies_nothing_is_explained() -> None:
    assert explained_variance([[group([2.0, 2.0]), group([2.0, 2.0])]]) is None
    assert explained_variance([[]]) is None
    assert explained_variance([[group([1.0, 2.0], mean=None)]]) is None


def test_a_shrunk_mean_is_not_the_members_own() -> None:
    plain, shrunk = group([1.0, 2.0]), group([7.0, 9.0], share=0.4)
    assert explained_variance([[plain, plain, shrunk]]) == explained_variance([[plain, plain]])
    assert explained_variance([[shrunk, shrunk]]) is None
    level = audit_groups("run", [record(1, [group([1.0, 2.0], share=1.0), shrunk])]).levels[1]
    assert (level.mean_size, level.coverage) == (2, 0.5)


def test_levels_count_what_they_judged_and_how_often_without_signal() -> None:
    records = [
        record(1, [group([1, 2, 3, 4], "country+phase"), group([5, 5, 5, 5], "country+phase", judged=3)]),
        record(2, [group([1, 2, 3, 4, 5], judged=2), group([1, 3], "running", zero=True)]),
    ]
    audit = audit_groups("run", records)
    assert (audit.updates, audit.first_version, audit.last_version, audit.samples) == (2, 1, 2, 11)
    fine, coarse, running = audit.levels
    assert (fine.level, fine.judged, fine.groups, fine.mean_size) == ("country+phase", 7, 2, 4)
    assert fine.judged_fraction == pytest.approx(7 / 11)
    assert fine.zero_signal_fraction == pytest.approx(3 / 7)
    assert fine.coverage == pytest.approx(8 / 11)
    assert fine.eta_squared is not None
    assert fine.eta_squared > 0
    assert (coarse.level, coarse.judged, coarse.mean_size, coarse.eta_squared) == ("country", 2, 5, 0)
    assert (running.level, running.judged, running.zero_signal_fraction) == ("running", 2, 1)
    assert running.coverage is None
    assert running.eta_squared is None


def test_trends_follow_thirds_and_skip_what_was_not_finite() -> None:
    values: list[float | None] = [1, 3, None, 5, 7, 9, 11]
    audit = audit_groups("run", [record(n, [], ratio_max=value) for n, value in enumerate(values)])
    trend = audit.trends["ratio_max"]
    assert (trend.first, trend.middle, trend.last) == (2, 6, 10)
    assert (trend.least, trend.largest) == (1, 11)
    assert "approx_kl" not in audit.trends
    single = audit_groups("run", [record(1, [], approx_kl=0.5)]).trends["approx_kl"]
    assert (single.first, single.middle, single.last) == (0.5, 0.5, 0.5)


def test_keys_made_from_outcomes_are_named() -> None:
    leaks = find_leaks(["country+phase", "country+return_quartile", "country"])
    assert list(leaks) == ["country+return_quartile"]
    assert "return_quartile" in leaks["country+return_quartile"]


def test_the_learners_own_records_are_understood(tmp_path: Path) -> None:
    episodes = ragged_episodes(seed=3)[:4]
    model = make_small_model(PolicySettings(hidden_size=32, layers=1), 400, eos_id=1, bos_id=2, pad_id=0, seed=1)
    learner = Learner(model, LearnerSettings(returns="episode", minibatches=1), GroupingSettings(
        keys=("country",), min_group_size=2
    ), seed=0)  # fmt: skip
    run = a_run(tmp_path / "run", [json.loads(json.dumps(learner.step(Batch(episodes, 0)).audit))])
    audit = audit_groups("run", read_records(run))
    assert audit.levels[0].judged == len(episodes)
    assert audit.levels[0].zero_signal_fraction in (0, 1)
    assert {"ratio_max", "approx_kl", "staleness_max", "zero_signal_fraction"} <= set(audit.trends)
    assert not audit.leaks


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["entente", "groups", "audit", *arguments])
    with pytest.raises(SystemExit) as left:
        cli.main()
    return int(left.value.code or 0)


def test_the_command_prints_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = record(1, [group([1, 2], "country+return")], approx_kl=0.25)
    run = a_run(tmp_path / "run", [one | {"keys": ["country+return"], "outcome_keys_allowed": True}])
    out = tmp_path / "audit.json"
    assert call(monkeypatch, str(run), "--json", str(out)) == 0
    text = capsys.readouterr().out
    assert "country+return" in text
    assert "leak: country+return" in text
    assert "outcome keys were allowed" in text
    written = json.loads(out.read_text())
    assert written["outcome_keys_allowed"] is True
    assert written["trends"]["approx_kl"]["last"] == 0.25
    assert math.isclose(written["levels"][0]["leave_one_out_r2"], 1 - 2 / 0.5)


@pytest.mark.parametrize("case", ["no run", "no audits", "damaged", "foreign", "no folder for the result"])
def test_what_cannot_be_audited_is_one_line_and_code_2(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, extra = tmp_path / "run", []
    if case != "no run":
        a_run(run, [record(1, [group([1, 2])])] if case.startswith("no folder") else [])
    if case == "damaged":
        (run / "audit" / "000001.json").write_text('{"version": 1')
    if case == "foreign":
        (run / "audit" / "000001.json").write_text("[]")
    if case.startswith("no folder"):
        extra = ["--json", str(tmp_path / "nowhere" / "audit.json")]
    assert call(monkeypatch, str(run), *extra) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("error: ")
    assert "\n" not in error
    hint = {"no run": "config.toml", "no audits": "no audit records", "no folder for the result": "nowhere"}
    assert hint.get(case, "000001.json") in error


def test_records_come_in_order_of_versions(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", [record(n, []) for n in (11, 2, 7)])
    (run / "audit" / ".000012.json.new").write_text("half")
    assert [one["version"] for one in read_records(run)] == [2, 7, 11]
    with pytest.raises(RunError, match="no run"):
        read_records(tmp_path)
