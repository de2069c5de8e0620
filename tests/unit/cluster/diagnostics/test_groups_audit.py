import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from cluster.cli import app as cli
from cluster.cli.groups.audit_tables import recommendation, show
from cluster.configs.loader import dump_config
from cluster.configs.schema import Config
from cluster.diagnostics.groups_audit import audit_groups, explained_by_keys, find_leaks, read_records, recommended_key
from cluster.errors import RunError
from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.learner import Learner
from grpo_core.models.pretrained import make_small_model
from grpo_core.settings import GroupingSettings, LearnerSettings, PolicySettings
from grpo_core.training.audit import AUDIT_SCHEMA, audit_record
from grpo_core.types import Batch
from tests.unit.grpo_core.support.cases import ragged_episodes


def group(values: list[float], level: str = "country", **changes: Any) -> dict[str, Any]:
    record = {
        "key": ["FRANCE"],
        "level": level,
        "size": len(values),
        "judged": len(values),
        "mean": float(np.mean(values)),
        "std": float(np.std(values, ddof=1)),
        "zero_variance": max(values) == min(values),
    }
    return record | changes


def record(version: int, groups: list[dict[str, Any]], **metrics: float | None) -> dict[str, Any]:
    return {
        "schema": AUDIT_SCHEMA,
        "cluster_features": [],
        "turn_facts": [],
        "version": version,
        "keys": ["country+phase", "country"],
        "outcome_keys_allowed": False,
        "groups": groups,
        "explained": {"samples": 0, "keys": {}, "same": {}},
        "metrics": metrics,
    }


def sums(left_out: float, between: float = 4.0, total: float = 10.0, groups: int = 4, alone: int = 0) -> dict[str, Any]:
    """The sums of one key in one update's record."""
    within = total - between
    return {"between": between, "within": within, "left_out": left_out, "groups": groups, "by_country": alone}


def explaining(version: int, same: dict[str, str] | None = None, **keys: dict[str, Any]) -> dict[str, Any]:
    """A record of 20 samples; ``a__b`` stands for the key ``a+b``."""
    named = {name.replace("__", "+"): row for name, row in keys.items()}
    return record(version, []) | {"explained": {"samples": 20, "keys": named, "same": same or {}}}


def a_run(folder: Path, records: list[dict[str, Any]]) -> Path:
    (folder / "audit").mkdir(parents=True)
    (folder / "config.toml").write_text(dump_config(Config()))
    for one in records:
        (folder / "audit" / f"{one['version']:06d}.json").write_text(json.dumps(one))
    return folder


def test_keys_are_ranked_by_their_leave_one_out_errors_over_all_updates() -> None:
    keys = explained_by_keys(
        [
            explaining(1, country__phase=sums(9), country=sums(8), country__lineup=sums(4, groups=6, alone=5)),
            explaining(
                2, country__phase=sums(6, total=30), country=sums(25, total=30), country__lineup=sums(13, 8, 30)
            ),
        ]
    )
    assert [each.key for each in keys] == ["country+phase", "country+lineup", "country"]
    phase, lineup, country = keys
    assert [each.leave_one_out_r2 for each in keys] == pytest.approx([1 - 15 / 40, 1 - 17 / 40, 1 - 33 / 40])
    assert [each.place for each in keys] == [1, None, 2]
    assert (lineup.eta_squared, lineup.groups, lineup.by_country_fraction) == (12 / 40, 5, 5 / 40)
    assert phase.updates == country.updates == 2
    recommended = recommended_key(keys, ())
    assert recommended is not None
    assert recommended.key == "country+phase"


def test_a_key_with_the_same_groups_as_another_shares_its_sums() -> None:
    first = explaining(
        1, {"country+lineup": "country", "country+task": "country"}, country__phase=sums(9), country=sums(8)
    )
    second = explaining(
        2, {"country+task": "country"}, country__phase=sums(9), country=sums(8), country__lineup=sums(2)
    )
    keys = {each.key: each for each in explained_by_keys([first, second])}
    assert keys["country+lineup"].leave_one_out_r2 == pytest.approx(1 - 10 / 20)
    assert "country+task" not in keys  # the same in every update


def test_a_declared_key_is_listed_even_if_its_groups_equal_anothers() -> None:
    keys = explained_by_keys([explaining(1, {"country": "country+phase"}, country__phase=sums(9))])
    assert [each.key for each in keys] == ["country+phase", "country"]


def test_the_recommended_key_is_in_every_update_and_declared_if_keys_are_equal() -> None:
    first = explaining(1, country__phase=sums(8), country=sums(8, groups=2), country__lineup=sums(8, groups=1))
    keys = explained_by_keys([first, explaining(2, country__phase=sums(8), country=sums(8, groups=2))])
    assert keys[0].key == "country"  # declared, like country+phase, and coarser
    luck = explaining(2, country__phase=sums(8), country=sums(8), country__fork=sums(1))
    keys = explained_by_keys([first, luck])
    assert keys[0].key == "country+fork"
    recommended = recommended_key(keys, ())
    assert recommended is not None
    assert recommended.key in ("country", "country+phase")


def test_no_key_is_recommended_without_variance() -> None:
    assert explained_by_keys([explaining(1, country=sums(0, 0, 0))]) == ()
    assert audit_groups("run", [record(1, [])]).recommended is None


def test_recommendation_names_whether_the_key_is_declared() -> None:
    def line(**keys: dict[str, Any]) -> str:
        found = audit_groups("run", [explaining(1, **keys)])
        assert found.recommended is not None
        return recommendation(found.keys, found.recommended)

    assert line(country__phase=sums(1), country=sums(5)) == ("recommended: country+phase, R² 0.900, declared first")
    assert line(country__phase=sums(15), country=sums(12)) == (
        "recommended: country, R² -0.200, yet no key reduces the variance: too few samples a group"
    )
    assert line(country__phase=sums(5), country=sums(1)) == (
        "recommended: country, R² 0.900, declared as number 2 (country+phase: 0.500)"
    )
    assert line(country__phase=sums(5), country=sums(6), country__own_centers__segment=sums(1)) == (
        "recommended: country+own_centers+segment, R² 0.900, NOT DECLARED (country+phase: 0.500)"
    )


def test_levels_count_their_samples_and_their_zero_variance_groups() -> None:
    records = [
        record(1, [group([1, 2, 3, 4], "country+phase"), group([5, 5, 5, 5], "country+phase", judged=3)]),
        record(2, [group([1, 2, 3, 4, 5], judged=2), group([1, 3], "running", zero_variance=True)]),
    ]
    audit = audit_groups("run", records)
    assert (audit.updates, audit.first_version, audit.last_version, audit.samples) == (2, 1, 2, 11)
    fine, coarse, running = audit.levels
    assert (fine.level, fine.judged, fine.groups, fine.mean_size) == ("country+phase", 7, 2, 4)
    assert fine.judged_fraction == pytest.approx(7 / 11)
    assert fine.zero_variance_fraction == pytest.approx(3 / 7)
    assert (coarse.level, coarse.judged, coarse.mean_size) == ("country", 2, 5)
    assert (running.level, running.judged, running.zero_variance_fraction) == ("running", 2, 1)


def test_trends_are_means_of_thirds_without_nonfinite_values() -> None:
    values: list[float | None] = [1, 3, None, 5, 7, 9, 11]
    audit = audit_groups("run", [record(n, [], ratio_max=value) for n, value in enumerate(values)])
    trend = audit.trends["ratio_max"]
    assert (trend.first, trend.middle, trend.last) == (2, 6, 10)
    assert (trend.least, trend.largest) == (1, 11)
    assert "approx_kl" not in audit.trends
    single = audit_groups("run", [record(1, [], approx_kl=0.5)]).trends["approx_kl"]
    assert (single.first, single.middle, single.last) == (0.5, 0.5, 0.5)


def test_keys_made_from_outcomes_are_named() -> None:
    leaks = find_leaks(["country+phase", "country+return_quartile", "country"], [], [])
    assert list(leaks) == ["country+return_quartile"]
    assert "return_quartile" in leaks["country+return_quartile"]


@pytest.mark.parametrize("clusters", ["auto", "adaptive", "dirichlet"])
def test_clusters_of_outcomes_are_outcomes(clusters: str) -> None:
    keys = [f"country+{clusters}", "country"]
    assert not find_leaks(keys, ["difficulty", "rating"], ["own_centers"])
    leaks = find_leaks(keys, ["difficulty", "return"], [])
    assert list(leaks) == [f"country+{clusters}"]
    assert "from return" in leaks[f"country+{clusters}"]


@pytest.mark.parametrize(("key", "features"), [("country+own_centers:4", []), ("country+auto", ["own_centers"])])
def test_bins_and_clusters_of_turn_facts_leak(key: str, features: list[str]) -> None:
    leaks = find_leaks(["country+own_centers", key, "country"], features, ["own_centers"])
    assert list(leaks) == [key]
    assert "own_centers" in leaks[key]


@pytest.mark.parametrize(("key", "features"), [("country+return", []), ("country+auto", ["return"])])
def test_leaking_keys_are_never_recommended(key: str, features: list[str]) -> None:
    given = explaining(1, **{key.replace("+", "__"): sums(1), "country": sums(7), "country__phase": sums(8)})
    audit = audit_groups("run", [given | {"keys": [key, "country"], "cluster_features": features}])
    assert audit.keys[0].key == key
    assert list(audit.leaks) == [key]
    assert audit.recommended == "country"
    later = explaining(2, country=sums(7), country__phase=sums(8)) | {"keys": ["country"], "cluster_features": []}
    audit = audit_groups("run", [given | {"keys": [key, "country"], "cluster_features": features}, later])
    assert audit.best_undeclared == ("country+phase",)


def test_no_key_is_recommended_if_all_leak(capsys: pytest.CaptureFixture[str]) -> None:
    given = explaining(1, country__return=sums(1)) | {"keys": ["country+return"]}
    audit = audit_groups("run", [given])
    assert audit.recommended is None
    show(audit, Console(width=80))
    text = capsys.readouterr().out
    assert "recommended: none" in text
    assert "0.900" in text


def test_records_of_the_learner_name_the_cluster_features() -> None:
    grouping = GroupingSettings(
        keys=("country+auto", "country"), cluster_features=("return",), allow_outcome_keys=True, min_group_size=2
    )
    given = LearnerSettings(returns="episode")
    written = audit_record(1, given, grouping, compute_advantages(ragged_episodes(seed=3), given, grouping, {}), [], {})
    audit = audit_groups("run", [written])
    assert list(audit.leaks) == ["country+auto"]
    assert audit.recommended != "country+auto"


def test_records_of_the_learner_can_be_audited(tmp_path: Path) -> None:
    episodes = ragged_episodes(seed=3)
    model = make_small_model(PolicySettings(hidden_size=32, layers=1), 400, eos_id=1, bos_id=2, pad_id=0, seed=1)
    learner = Learner(model, LearnerSettings(returns="episode", minibatches=1), GroupingSettings(
        keys=("country",), min_group_size=2
    ), seed=0)  # fmt: skip
    run = a_run(tmp_path / "run", [json.loads(json.dumps(learner.step(Batch(episodes, 0)).audit))])
    audit = audit_groups("run", read_records(run))
    assert audit.levels[0].judged == len(episodes)
    assert audit.levels[0].zero_variance_fraction == 0
    assert {"ratio_max", "approx_kl", "staleness_max", "zero_variance_fraction"} <= set(audit.trends)
    assert not audit.leaks
    # The other facts are the task and the line-up, which are the same for all samples.
    assert [each.key for each in audit.keys] == ["country"]
    assert audit.recommended == "country"
    assert audit.keys[0].by_country_fraction == 0


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["entente", "groups", "audit", *arguments])
    with pytest.raises(SystemExit) as left:
        cli.main()
    return int(left.value.code or 0)


def test_the_command_prints_and_writes_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = record(1, [group([1, 2], "country+return")], approx_kl=0.25)
    given = explaining(1, country__return=sums(12), country__phase=sums(5, alone=10))["explained"]
    changes = {"keys": ["country+return"], "outcome_keys_allowed": True, "explained": given}
    run = a_run(tmp_path / "run", [one | changes])
    out = tmp_path / "audit.json"
    assert call(monkeypatch, str(run), "--gradients", "--json", str(out)) == 0
    text = capsys.readouterr().out
    assert "recommended: country+phase, R² 0.500, NOT DECLARED (country+return: -0.200)" in text
    assert "50.0%" in text
    assert "gradients: left out: the run has no audit/last_batch.bin" in text
    assert "country+return" in text
    assert "leak: country+return" in text
    assert "outcome keys were allowed" in text
    written = json.loads(out.read_text())
    assert written["outcome_keys_allowed"] is True
    assert written["trends"]["approx_kl"]["last"] == 0.25
    assert written["recommended"] == "country+phase"
    assert written["keys"][1]["leave_one_out_r2"] == pytest.approx(-0.2)
    assert written["gradients"] is None


@pytest.mark.parametrize("columns", [80, 120])
def test_tables_fit_a_terminal(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = {f"country__a_rather_long_fact_number_{number}": sums(number) for number in range(20)}
    run = a_run(tmp_path / "run", [explaining(1, country__phase=sums(3), **keys)])
    monkeypatch.setenv("COLUMNS", str(columns))
    assert call(monkeypatch, str(run)) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text
    assert "8 lesser keys are not shown" in " ".join(text.split())
    assert "not measured: bias and noise" in text


@pytest.mark.parametrize("case", ["no run", "no audits", "damaged", "foreign", "newer", "no folder for the result"])
def test_runs_that_cannot_be_audited_give_one_line_and_exit_code_2(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, extra = tmp_path / "run", []
    if case != "no run":
        a_run(run, [record(1, [group([1, 2])])] if case.startswith("no folder") else [])
    if case == "damaged":
        (run / "audit" / "000001.json").write_text('{"version": 1')
    if case == "foreign":
        (run / "audit" / "000001.json").write_text("[]")
    if case == "newer":
        (run / "audit" / "000001.json").write_text(json.dumps(record(1, []) | {"schema": AUDIT_SCHEMA + 1}))
    if case.startswith("no folder"):
        extra = ["--json", str(tmp_path / "nowhere" / "audit.json")]
    assert call(monkeypatch, str(run), *extra) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("error: ")
    assert "\n" not in error
    hint = {
        "no run": "config.toml",
        "no audits": "no audit records",
        "no folder for the result": "nowhere",
        "newer": f"schema {AUDIT_SCHEMA + 1}",
    }
    assert hint.get(case, "000001.json") in error


def test_records_are_sorted_by_version(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", [record(n, []) for n in (11, 2, 7)])
    (run / "audit" / ".000012.json.new").write_text("half")
    assert [one["version"] for one in read_records(run)] == [2, 7, 11]
    with pytest.raises(RunError, match="no run"):
        read_records(tmp_path)


def test_records_of_another_format_are_refused(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", [record(1, [])])
    (run / "run_id").write_text("demo-1\n")
    with pytest.raises(RunError, match="has format 1, and this version"):
        read_records(run)
