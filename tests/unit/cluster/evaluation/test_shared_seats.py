"""Anchors that share the six other seats: ``dumbbot+greedy``."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.evaluation.evaluate import diplomacy_request, evaluate, evaluation_rows, specs_of
from cluster.evaluation.players.opening import sharing_names
from cluster.evaluation.tables.places import this_process
from services.environments.diplomacy.ending import Ending
from services.environments.diplomacy.world import WORLD

REQUEST = diplomacy_request(2, Ending(1902))


def test_two_anchors_share_the_seats_beside_anchors_that_have_them_alone() -> None:
    anchors = ["random", "hold+random", "hold"]
    assert [spec.player for spec in specs_of(REQUEST, ["dumbbot"], anchors)] == [
        "dumbbot", "random", "hold", "random", "hold"
    ]  # fmt: skip
    rows = evaluation_rows(REQUEST, ["dumbbot"], evaluate(REQUEST, ["dumbbot"], anchors, this_process))
    assert [row["against"] for row in rows] == anchors
    alone = {
        anchor: evaluation_rows(REQUEST, ["dumbbot"], evaluate(REQUEST, ["dumbbot"], [anchor], this_process))[0]
        for anchor in anchors
    }
    for row in rows:
        assert row["by_country"] == alone[row["against"]]["by_country"]
    assert rows[0]["by_country"] != rows[1]["by_country"] != rows[2]["by_country"]


def test_a_folder_with_a_plus_in_its_name_is_one_player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a+b").mkdir()
    monkeypatch.chdir(tmp_path)
    assert sharing_names("a+b") == ("a+b",)
    assert sharing_names("a+c") == ("a", "c")


def test_text_says_who_shares_the_seats() -> None:
    world = REQUEST.world
    assert isinstance(world, WORLD)
    assert world.opposition("dumbbot") == "against six dumbbot"
    assert world.opposition("dumbbot+greedy") == "against dumbbot and greedy mixed"
    assert world.opposition("hold+dumbbot+greedy") == "against hold, dumbbot and greedy mixed"
