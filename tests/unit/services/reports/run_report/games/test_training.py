"""Kept games of training in a report: the newest judged block, its pages, and files that are no games of a run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cluster.runs.folder import RunFolder
from services.environments.diplomacy.game import DiplomacyGame
from services.reports.game_viewer.decisions import GameDecisions, Judgement, RecordedDecision, write_decisions
from services.reports.run_report.data import RunData, load_run
from services.reports.run_report.games import training
from services.reports.run_report.games.training import show_training_games, training_games_table
from tests.measured import DIPLOMACY

JUDGED = Judgement(1.0, 0.5, 0.5, "country", "ITALY", 4, 0.2, version=12)


@pytest.fixture
def run(tmp_path: Path) -> RunData:
    RunFolder(tmp_path).summary.write_text("{}")
    return load_run(tmp_path, DIPLOMACY)


def keep(folder: Path, member: int, judgement: Judgement | None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    game = DiplomacyGame(1901)
    game.process()
    path = folder / f"{member}.json"
    game.save(path)
    decision = RecordedDecision("S1901M", "ITALY", "learner", judgement=judgement)
    write_decisions(path, GameDecisions(1, path.stem, "played", (), (decision,)))
    return path


def test_games_of_the_newest_judged_block_have_pages(run: RunData) -> None:
    top = run.folder / "games" / "training"
    for block, judgement in (("b000007", JUDGED), ("b000040", JUDGED), ("b0000100", None)):
        for member in (10, 2):
            keep(top / block, member, judgement)
    steps: list[int] = []
    games = show_training_games(run, lambda name, total: lambda done: steps.append(done))
    assert [game.name for game in games] == ["b000040/2", "b000040/10"]
    assert {(game.role, game.update) for game in games} == {("ITALY", 12)}
    assert steps == [1, 1]
    table = training_games_table(games)
    assert re.findall('href="([^"]+)"', table) == [f"games/training/b000040/{member}.html" for member in (2, 10)]
    assert "<td>3</td><td>12</td>" in table
    assert all((run.folder / game.page.link).is_file() for game in games)


def test_a_damaged_record_hides_no_judged_block(run: RunData) -> None:
    top = run.folder / "games" / "training"
    keep(top / "b000000", 0, JUDGED)
    for member in (0, 1):
        keep(top / "b000007", member, JUDGED)
    (top / "b000007" / "0.decisions.json.gz").write_bytes(b"no gzip")
    assert [game.update for game in show_training_games(run)] == [None, 12]


def test_games_that_wait_for_their_update_are_shown_where_there_are_no_others(run: RunData) -> None:
    keep(run.folder / "games" / "training" / "b000000", 0, None)
    (game,) = show_training_games(run)
    assert game.update is None
    assert "not yet" in training_games_table([game])


def test_damaged_files_are_named_and_others_left_alone(run: RunData) -> None:
    folder = run.folder / "games" / "training" / "b000000"
    game = keep(folder, 0, JUDGED)
    game.write_text("{}")
    keep(folder, 1, JUDGED).with_name("1.decisions.json.gz").write_bytes(b"no gzip")
    (folder / "<b>.json").write_text("{}")
    first, second = show_training_games(run)
    assert first.page.link == ""
    assert "is not a saved game" in training_games_table([first, second])
    assert (second.role, second.update) == ("", None)
    assert training_games_table([second]).count("<td>no data</td>") == 3
    assert second.page.link.endswith("1.html")


def test_games_outside_the_run_are_not_opened(run: RunData, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    keep(outside, 0, JUDGED)
    top = run.folder / "games" / "training"
    top.mkdir(parents=True)
    (top / "b000000").symlink_to(outside)
    assert show_training_games(run) == []
    assert training_games_table([]) == ""
    own = top / "b000001"
    keep(own, 0, JUDGED)
    (own / "1.json").symlink_to(outside / "0.json")
    decisions = keep(own, 2, JUDGED).with_name("2.decisions.json.gz")
    decisions.unlink()
    decisions.symlink_to(outside / "0.decisions.json.gz")
    assert [game.name for game in show_training_games(run)] == ["b000001/0"]
    assert not list(outside.glob("*.html"))


def test_a_page_is_drawn_once_and_a_link_is_no_page(run: RunData, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = run.folder / "games" / "training" / "b000000"
    page = keep(folder, 0, JUDGED).with_suffix(".html")
    first = show_training_games(run)
    drawn = page.stat().st_mtime_ns
    assert show_training_games(run) == first
    assert page.stat().st_mtime_ns == drawn
    planted = tmp_path_factory.mktemp("outside") / "page.html"
    planted.write_text("<script>alert(1)</script>")
    page.unlink()
    page.symlink_to(planted)
    assert show_training_games(run) == []


def test_a_report_shows_at_most_so_many_games(run: RunData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "MOST_GAMES", 2)
    for member in range(4):
        keep(run.folder / "games" / "training" / "b000000", member, JUDGED)
    assert [game.name[-1] for game in show_training_games(run)] == ["0", "1"]
