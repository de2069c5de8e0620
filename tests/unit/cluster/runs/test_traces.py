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


def test_another_schema_is_named(tmp_path, trace):
    path = tmp_path / "000001.json.gz"
    path.write_bytes(gzip.compress(json.dumps({**trace.columns, "schema": 99}).encode()))
    with pytest.raises(RunError, match="schema 99"):
        read_trace(path)
