"""The page's data of a run: its course over updates, its roles, and what is no run."""

import json

import msgspec
import pytest

from cluster.errors import RunError
from cluster.explore.document import run_document
from cluster.explore.dynamics import dynamics
from cluster.explore.page import document_of
from cluster.explore.roles import roles_of
from services.reports.run_report.data import load_run
from tests.long_run import long_run
from tests.measured import DIPLOMACY, WITH_PRESS


def no_bar(name, steps):
    return lambda done: None


@pytest.fixture
def run(tmp_path):
    folder = long_run(tmp_path / "run", 6)
    (folder / "format").write_text("2\n")
    return folder


def test_a_run_without_traces_still_has_its_course(run):
    document = run_document(run, no_bar)
    [only] = document["runs"]
    assert only["traces"] == {}
    assert only["course"]["version"] == [1, 2, 3, 4, 5, 6]
    assert [role["name"] for role in only["roles"]] == list(DIPLOMACY.roles)
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_a_run_that_still_trains_has_no_summary_yet(run):
    (run / "summary.json").unlink()
    [only] = run_document(run, no_bar)["runs"]
    assert only["name"] == "run"
    assert only["evaluations"] == []


def test_columns_are_means_of_the_records(run):
    audits = load_run(run, DIPLOMACY).audits
    found = dynamics(audits, DIPLOMACY, {})
    third = audits[2]
    own = [reward for reward, role in zip(third.rewards, third.roles, strict=True) if role == "FRANCE"]
    if own:
        assert found["roles"]["FRANCE"]["reward"][2] == pytest.approx(sum(own) / len(own), rel=1e-4)
    assert found["roles"]["FRANCE"]["episodes"][2] == third.roles.count("FRANCE")
    assert found["groups"][2] == len(third.groups)
    judged = sum(group.judged for group in third.groups)
    assert sum(column[2] for column in found["levels"].values()) == judged
    spread = third.distributions.advantages.roles["FRANCE"]
    assert found["spread"]["FRANCE"][2] == pytest.approx(spread.mean_abs * spread.count, rel=1e-4)
    assert found["weights"]["FRANCE"][2] == pytest.approx(third.group_weights["FRANCE"], rel=1e-4)


def test_a_share_of_counted_things_is_one_of_all_things(run):
    audit = msgspec.structs.replace(
        load_run(run, DIPLOMACY).audits[0],
        roles=["FRANCE", "FRANCE", "FRANCE", "ITALY"],
        rewards=[1.0, 2.0, 3.0, 4.0],
        outcomes={"promises": [8, 2, 0, 0], "honesty": [0.25, 1.0, 1.0, 1.0], "partners_honesty": [1.0] * 4},
    )
    roles = dynamics([audit], WITH_PRESS, {})["roles"]
    assert roles["FRANCE"]["promises"] == [pytest.approx(10 / 3, rel=1e-4)]
    assert roles["FRANCE"]["honesty"] == [pytest.approx(0.4)]
    assert roles["ITALY"]["honesty"] == [None]  # no promise
    assert roles["FRANCE"]["partners_honesty"] == [None]  # an early record, without the number of promises
    assert roles["FRANCE"]["reward"] == [2.0]


def test_returns_of_groups_are_those_of_the_records(run):
    audits = load_run(run, DIPLOMACY).audits
    found = dynamics(audits, DIPLOMACY, {})["group_returns"]
    assert {column["key"][0] for column in found} == set(DIPLOMACY.roles)
    assert len(found) == 8 * len(DIPLOMACY.roles)
    for column in found:
        for audit, value in zip(audits, column["mean"], strict=True):
            same = [group for group in audit.groups if (group.level, group.key) == (column["level"], column["key"])]
            expected = same[-1].mean if same else None
            assert value == (None if expected is None else pytest.approx(expected, rel=6e-3))


def test_roles_have_labels_and_colours():
    found = roles_of(DIPLOMACY, ["FRANCE", "SEAT_1"])
    names = {role["name"]: role for role in found["roles"]}
    assert names["FRANCE"] == {"name": "FRANCE", "label": "France", "color": "var(--line-FRANCE)"}
    assert names["SEAT_1"]["color"].startswith("var(--line-")
    assert len(names) == 8


@pytest.mark.parametrize(("name", "message"), [("nowhere", "is no folder"), ("empty", "holds no records of updates")])
def test_what_is_no_run_is_refused_in_one_line(tmp_path, name, message):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match=message):
        document_of(tmp_path / name, no_bar)
