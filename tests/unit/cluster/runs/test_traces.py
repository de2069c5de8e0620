"""Traces in the run folder: which are kept, and what is no trace."""

import gzip
import json
from itertools import pairwise

import pytest

from cluster.errors import RunError
from cluster.runs.traces import MOST_TRACES, NEWEST, kept_versions, read_trace, trace_files, write_trace
from grpo_core.learner import Learner
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.traces.update_trace import UpdateTrace
from grpo_core.types import Batch
from tests.unit.grpo_core.support.cases import ragged_episodes, tiny_model


@pytest.fixture(scope="module")
def trace():
    learner = Learner(tiny_model(), LearnerSettings(), GroupingSettings(keys=("country",)), 0)
    return learner.step(Batch(ragged_episodes(0), 0), 100).trace


def test_a_trace_is_read_as_it_was_written(tmp_path, trace):
    path = write_trace(tmp_path / "traces", trace)
    assert trace_files(tmp_path / "traces") == {1: path}
    assert read_trace(path) == json.loads(json.dumps(trace.columns))


def test_long_runs_keep_the_newest_and_an_even_selection():
    assert kept_versions(list(range(1, MOST_TRACES + 1))) == set(range(1, MOST_TRACES + 1))
    kept: list[int] = []
    for version in range(1, 3000):
        kept = sorted(kept_versions([*kept, version]))
        assert len(kept) <= MOST_TRACES
        assert kept[-1] == version
    assert kept[-NEWEST:] == list(range(3000 - NEWEST, 3000))
    assert len(kept) > MOST_TRACES // 3
    old = kept[:-NEWEST]
    assert {right - left for left, right in pairwise(old)} == {old[1] - old[0]}


def test_writing_removes_what_is_not_kept(tmp_path, trace, monkeypatch):
    monkeypatch.setattr("cluster.runs.traces.MOST_TRACES", 5)
    monkeypatch.setattr("cluster.runs.traces.NEWEST", 2)
    for version in range(1, 10):
        write_trace(tmp_path, UpdateTrace(version, {**trace.columns, "version": version}))
    assert sorted(trace_files(tmp_path)) == [4, 8, 9]


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b"[]"), gzip.compress(b"{}"), gzip.compress(b'{"schema": 1}')[:-9],
     gzip.compress(b"[" * 100_000)],
    ids=["empty", "text", "list", "table", "torn", "deep"],
)  # fmt: skip
def test_a_damaged_trace_is_named(tmp_path, content):
    path = tmp_path / "000001.json.gz"
    path.write_bytes(content)
    with pytest.raises(RunError, match=r"000001\.json\.gz is no trace of an update"):
        read_trace(path)


def test_a_trace_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("cluster.runs.traces.MOST_BYTES", 1 << 20)
    path = tmp_path / "000001.json.gz"
    path.write_bytes(gzip.compress(b"[" + b"0," * (1 << 20) + b"0]"))
    with pytest.raises(RunError, match="more than 1 MiB"):
        read_trace(path)


@pytest.mark.parametrize("keeps", [True, False])
def test_another_schema_is_named(tmp_path, trace, keeps):
    path = tmp_path / "000001.json.gz"
    path.write_bytes(gzip.compress(json.dumps({**(trace.columns if keeps else {}), "schema": 99}).encode()))
    with pytest.raises(RunError, match="schema 99"):
        read_trace(path)


def without(table, *path):
    """A copy that lacks what the path leads to."""
    name, *rest = path
    if not rest:
        return {key: value for key, value in table.items() if key != name}
    return {**table, name: without(table[name], *rest)}


def with_value(table, value, *path):
    """A copy with another value where the path leads to."""
    name, *rest = path
    return {**table, name: with_value(table[name], value, *rest) if rest else value}


@pytest.mark.parametrize(
    "change",
    [
        lambda columns: without(columns, "turns"),
        lambda columns: without(columns, "tokens"),
        lambda columns: without(columns, "running"),
        lambda columns: without(columns, "episodes", "block"),
        lambda columns: without(columns, "episodes", "facts"),
        lambda columns: with_value(columns, columns["episodes"]["reward"][1:], "episodes", "reward"),
        lambda columns: with_value(columns, columns["turns"]["elapsed"][1:], "turns", "elapsed"),
        lambda columns: with_value(columns, {"odd": [1]}, "turns", "facts"),
        lambda columns: with_value(columns, columns["advantages"][1:], "advantages"),
        lambda columns: with_value(columns, "text", "advantages"),
        lambda columns: with_value(columns, [without(each, "completion") for each in columns["tokens"]], "tokens"),
        lambda columns: with_value(columns, [{**each, "turn": 10**6} for each in columns["tokens"]], "tokens"),
        lambda columns: with_value(columns, [{**each, "behaviour": []} for each in columns["tokens"]], "tokens"),
        lambda columns: with_value(columns, [{**each, "completion": [-1]} for each in columns["tokens"]], "tokens"),
    ],
)
def test_a_trace_that_lacks_a_part_is_no_trace(tmp_path, trace, change):
    path = tmp_path / "000001.json.gz"
    path.write_bytes(gzip.compress(json.dumps(change(trace.columns)).encode()))
    with pytest.raises(RunError, match="is no trace of an update"):
        read_trace(path)


def test_a_trace_under_another_number_is_named(tmp_path, trace):
    path = write_trace(tmp_path, trace).rename(tmp_path / "000007.json.gz")
    with pytest.raises(RunError, match="holds update 1; its name says another one"):
        read_trace(path)
