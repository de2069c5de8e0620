"""Which updates a page holds, and what is added to them."""

import base64
import gzip
import json
from dataclasses import replace

import pytest

from cluster.explore.clusters import NUMBERS as GROUP_NUMBERS
from cluster.explore.clusters import cluster_labels
from cluster.explore.details import detailed_updates, first_of_each
from cluster.explore.opponents import members_of
from cluster.explore.token_text import NUMBERS
from cluster.runs.traces import trace_files, write_trace
from grpo_core.advantages.clustering import dirichlet_labels, kmeans_labels
from grpo_core.learner import Learner
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.traces.update_trace import UpdateTrace
from grpo_core.types import Batch
from services.reports.run_report.schema import Lineup
from tests.unit.grpo_core.support.cases import ragged_episodes, tiny_model


@pytest.fixture(scope="module")
def columns():
    learner = Learner(tiny_model(), LearnerSettings(), GroupingSettings(keys=("country",)), 0)
    episodes = tuple(
        replace(episode, keys={**episode.keys, "size": index * index % 7})
        for index, episode in enumerate(ragged_episodes(0))
    )
    return learner.step(Batch(episodes, 0), 100).trace.columns


def no_bar(name, steps):
    return lambda done: None


def folder_of(tmp_path, columns, versions):
    for version in versions:
        write_trace(tmp_path, UpdateTrace(version, {**columns, "version": version}))
    return tmp_path


def unpacked(text):
    return json.loads(gzip.decompress(base64.b64decode(text)))


def test_everything_is_on_the_page_where_it_fits(tmp_path, columns):
    folder = folder_of(tmp_path, columns, range(1, 6))
    found = detailed_updates(folder, NUMBERS, {}, no_bar, 10**7)
    assert list(found.traces) == ["1", "2", "3", "4", "5"]
    assert found.left_out == 0
    assert found.roles == ["AUSTRIA", "FRANCE", "TURKEY"]
    assert unpacked(found.traces["3"])["version"] == 3


def test_damaged_traces_are_left_out_and_named(tmp_path, columns):
    folder = folder_of(tmp_path, columns, range(1, 4))
    trace_files(folder)[2].write_bytes(b"not gzip")
    found = detailed_updates(folder, NUMBERS, {}, no_bar, 10**7)
    assert list(found.traces) == ["1", "3"]
    assert (found.damaged, found.left_out) == ([2], 0)


def test_settings_of_another_version_leave_an_update_out_and_name_it(tmp_path, columns):
    folder = folder_of(tmp_path, columns, [1])
    write_trace(folder, UpdateTrace(2, {**columns, "version": 2, "grouping": {**columns["grouping"], "unknown": 1}}))
    found = detailed_updates(folder, NUMBERS, {}, no_bar, 10**7)
    assert (list(found.traces), found.damaged) == (["1"], [2])


def test_only_some_of_many_updates_have_clusters_and_the_others_say_so(tmp_path, columns, monkeypatch):
    monkeypatch.setattr("cluster.explore.details._MOST_CLUSTERED", 2)
    found = detailed_updates(folder_of(tmp_path, columns, range(1, 5)), NUMBERS, {}, no_bar, 10**7)
    assert [unpacked(found.traces[each])["clusters"] is None for each in "1234"] == [False, True, True, False]


def test_a_run_with_a_number_of_clusters_of_its_own_has_these(columns):
    asked = {**columns, "grouping": {**columns["grouping"], "n_groups": 5}}
    assert list(cluster_labels(asked, {})["auto"]) == ["2", "3", "4", "5", "6"]


def test_a_number_that_does_not_vary_in_an_update_forgets_nothing_of_adaptive_clusters(columns):
    facts = {**columns["episodes"]["facts"], "level": [3] * len(columns["episodes"]["role"])}
    windows = {}
    constant = {**columns, "episodes": {**columns["episodes"], "facts": facts}}
    assert cluster_labels(constant, windows)["features"] == ["size"]
    before = {role: len(window.window_WF) for role, window in windows[4].items()}
    varying = {**facts, "level": list(range(len(facts["level"])))}
    found = cluster_labels({**columns, "episodes": {**columns["episodes"], "facts": varying}}, windows)
    assert found["features"] == ["level", "size"]
    assert all(len(window.window_WF) > before[role] for role, window in windows[4].items())


def test_too_many_updates_are_thinned_and_the_newest_stays(tmp_path, columns):
    folder = folder_of(tmp_path, columns, range(1, 41))
    size = len(detailed_updates(folder_of(tmp_path / "one", columns, [1]), NUMBERS, {}, no_bar, 10**7).traces["1"])
    found = detailed_updates(folder, NUMBERS, {}, no_bar, 10 * size)
    assert sum(map(len, found.traces.values())) <= 10 * size
    assert 5 <= len(found.traces) <= 10
    assert list(found.traces)[-1] == "40"
    assert found.left_out == 40 - len(found.traces)
    smallest = detailed_updates(folder, NUMBERS, {}, no_bar, 1)
    assert list(smallest.traces) == ["40"]  # one update is better than none


def test_an_update_that_alone_is_too_large_has_the_tokens_of_fewer_turns(tmp_path, columns):
    folder = folder_of(tmp_path, columns, [1])
    whole = detailed_updates(folder, NUMBERS, {}, no_bar, 10**7).traces["1"]
    fewer = detailed_updates(folder, NUMBERS, {}, no_bar, len(whole) - 100).traces["1"]
    assert len(fewer) <= len(whole) - 100
    assert detailed_updates(folder, NUMBERS, {}, no_bar, 1, 10**7).traces["1"] == whole  # one of many has more room
    turns = [[each["turn"] for each in unpacked(text)["tokens"]] for text in (whole, fewer)]
    assert 1 <= len(turns[1]) < len(turns[0])
    assert set(turns[1]) < set(turns[0])
    assert turns[1][-1] == turns[0][-1]
    assert unpacked(fewer)["tokens_left_out"] == len(turns[0]) - len(turns[1])
    assert {**unpacked(fewer), "tokens": None} == {
        **unpacked(whole), "tokens": None, "tokens_left_out": unpacked(fewer)["tokens_left_out"]}  # fmt: skip


def test_opponents_come_from_the_lineups(tmp_path, columns):
    folder = folder_of(tmp_path, columns, [1])
    lineups = [Lineup(index=1, members={"FRANCE": "bot/dumbbot", "ITALY": "bot/dumbbot", "TURKEY": "policy/v3"})]
    trace = unpacked(detailed_updates(folder, NUMBERS, members_of(lineups), no_bar, 10**7).traces["1"])
    names = dict(zip(trace["episodes"]["block"], trace["episodes"]["opponents"], strict=True))
    assert names == {"b0": None, "b1": "2 dumbbot, policy/v3", "b2": None}


def test_tokens_without_a_tokenizer_are_numbers(tmp_path, columns):
    trace = unpacked(detailed_updates(folder_of(tmp_path, columns, [1]), NUMBERS, {}, no_bar, 10**7).traces["1"])
    turn, source = trace["tokens"][0], columns["tokens"][0]
    assert turn["words"] == [f"#{token}" for token in source["completion"]]
    assert "prompt" not in turn


def test_clusters_are_those_of_training(columns):
    found = cluster_labels(columns, {})
    assert found["features"] == ["size"]
    roles, sizes = columns["episodes"]["role"], columns["episodes"]["facts"]["size"]
    import numpy as np

    for number in GROUP_NUMBERS:
        for role in set(roles):
            own = [index for index, each in enumerate(roles) if each == role]
            values = np.array([[float(sizes[index])] for index in own])
            for kind, make in (("auto", kmeans_labels), ("dirichlet", dirichlet_labels)):
                assert [found[kind][str(number)][index] for index in own] == make(values, number, 0).tolist()


def test_there_are_no_clusters_without_a_number_that_varies(columns):
    plain = {**columns, "episodes": {**columns["episodes"], "facts": {"country": columns["episodes"]["role"]}}}
    assert cluster_labels(plain, {}) == {}


def test_of_many_runs_as_many_as_fit_are_taken(tmp_path, columns):
    for name in "abcdefgh":
        folder_of(tmp_path / name, columns, [1, 21])
    (tmp_path / "empty").mkdir()
    folders = sorted(tmp_path.iterdir())
    size = trace_files(tmp_path / "a")[21].stat().st_size * 4 / 3
    found, left_out = first_of_each(folders, 10**9)
    assert ([path.name for path in found], left_out) == (list("abcdefgh"), 0)
    found, left_out = first_of_each(folders, int(4.1 * size))
    assert (len(found), left_out) == (4, 4)
