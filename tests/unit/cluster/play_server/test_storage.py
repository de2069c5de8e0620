"""Lines on disk: exactly as they were, readable by other commands, and never lost to a damaged or full disk."""

from __future__ import annotations

import errno
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.errors import RunError
from cluster.play_server import entry
from cluster.play_server.document import LINE_KEY, from_document, loaded_line, to_document
from cluster.play_server.line import Line
from cluster.play_server.seats import PERSON
from cluster.play_server.storage import GamesFolder
from grpo_core.errors import StorageError
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.played_phases import played_phases
from services.environments.diplomacy.saved_game import SavedGameError, read_saved_game
from services.reports.game_viewer.game_viewer import viewer_page
from tests.unit.cluster.play_server.lines import line_of, play_on, seats


@pytest.fixture
def folder(tmp_path: Path) -> GamesFolder:
    return GamesFolder(tmp_path)


@pytest.fixture(scope="module")
def line() -> Line:
    made = play_on(line_of(FRANCE=PERSON, ITALY="random"), 7)
    while not made.people_to_move:
        made = play_on(made, 1)
    place = made.present.position.orderable["FRANCE"][0]
    return entry.enter(made, "FRANCE", made.present.position.legal[place][0])


def as_json(document: Any) -> Any:
    return json.loads(json.dumps(document))


def test_a_line_comes_back_as_it_was(folder: GamesFolder, line: Line) -> None:
    folder.write(line)
    lines, problems = folder.read()
    assert problems == []
    assert to_document(lines[1]) == to_document(line)
    assert lines[1].present.position == line.present.position
    assert lines[1].present.position.past == line.present.position.past
    assert play_on(lines[1], 3).present.state == play_on(line, 3).present.state


def test_a_lines_file_is_a_saved_game_for_everyone(folder: GamesFolder, line: Line, tmp_path: Path) -> None:
    folder.write(line)
    path = tmp_path / "line-1.json"
    assert DiplomacyGame.load(path, 1910).position == line.present.position
    phases = list(played_phases(read_saved_game(path), "line"))
    assert [phase.position.phase for phase in phases] == [phase.name for phase in line.phases[:-1]]
    assert [phase.orders for phase in phases] == [phase.orders for phase in line.phases[:-1]]
    assert "Game line-1" in viewer_page(as_json(to_document(line)))[0]


def test_the_token_stays_and_is_read_by_its_user_alone(folder: GamesFolder) -> None:
    token = folder.token()
    assert len(token) >= 40
    assert folder.token() == token
    path = folder.path / ".token"
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("short")
    assert len(folder.token()) >= 40


def test_two_servers_do_not_share_a_folder(folder: GamesFolder) -> None:
    with folder.held(), pytest.raises(RunError, match="another server plays in"), GamesFolder(folder.path).held():
        raise AssertionError
    with folder.held():
        pass


def test_a_damaged_file_is_reported_and_left_alone(folder: GamesFolder, line: Line) -> None:
    folder.write(line)
    folder.write(replace(line, id=3))
    bad = folder.path / "line-3.json"
    bad.write_bytes(bad.read_bytes()[:-100])
    (folder.path / "line-5.json").write_text("[]")
    (folder.path / "notes.txt").write_text("mine")
    lines, problems = folder.read()
    assert list(lines) == [1]
    assert len(problems) == 2
    assert all(name in "".join(problems) for name in ("line-3.json", "line-5.json"))
    assert folder.next_number() == 6


def test_a_full_disk_leaves_the_file_as_it_was(
    folder: GamesFolder, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write(line)
    before = (folder.path / "line-1.json").read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="disk is full"):
        folder.write(entry.clear(line, "FRANCE"))
    assert (folder.path / "line-1.json").read_bytes() == before
    assert [path.name for path in folder.path.iterdir()] == ["line-1.json"]


def test_a_saved_game_goes_on_from_its_last_phase() -> None:
    game = DiplomacyGame(1905)
    game.step({"FRANCE": ("A PAR - BUR",)})
    game.step({"FRANCE": ("A BUR - BEL",)})
    line = loaded_line(json.loads(game.saved()), 4, seats(FRANCE=PERSON), seed=1, until="1905", name="theirs")
    assert (line.id, line.present.name, len(line.phases)) == (4, game.phase, 3)
    assert line.present.position == game.position
    assert line.phases[1].orders["FRANCE"] == ("A BUR - BEL",)
    assert all(phase.players == {} for phase in line.phases)


def test_a_line_says_that_it_has_no_letters_of_a_game_with_press() -> None:
    game = DiplomacyGame(1905)
    game.step({"FRANCE": ("A PAR - BUR",)})
    document = json.loads(game.saved())
    letter = {"sender": "FRANCE", "phase": "S1901M", "message": "PEACE", "time_sent": 1}
    document["phases"][0]["messages"] = [{**letter, "recipient": power} for power in ("ENGLAND", "GERMANY")]
    line = loaded_line(document, 4, seats(), seed=1, until="1905", name="theirs")
    assert line.name == "theirs, without its 2 letters"
    without = loaded_line(as_json(to_document(line)), 5, seats(), seed=1, until="1905", name="theirs")
    assert without.name == "theirs"


def test_a_saved_game_cannot_bring_its_own_rules_or_map(line: Line) -> None:
    document = as_json(to_document(line))
    for phase in document["phases"]:
        phase["state"] |= {"rules": ["NO_CHECK"], "map": "../../x", "civil_disorder": {"FRANCE": 1}}
    loaded = loaded_line(document, 2, seats(), seed=1, until="1905", name="x")
    assert set(loaded.present.state) <= {"name", "note", "units", "retreats", "centers", "homes", "influence"}


def test_any_damage_is_refused_in_one_line(line: Line) -> None:
    """Values in a line's document are replaced by others; what is still accepted is a line that can be shown."""
    generator = random.Random(3)
    text = json.dumps(to_document(line))
    junk: list[Any] = [None, -1, "", "A" * 500, [], {}, [[]], 1e300, True, "../../x", {"FRANCE": 1}]
    refused: list[str] = []
    for _ in range(150):
        document = json.loads(text)
        spots = list(_spots(document))
        holder, key = generator.choice(spots)
        holder[key] = generator.choice(junk)
        try:
            made = from_document(document, "x")
            assert made.present.is_final or made.present.position.phase
        except SavedGameError as error:
            refused.append(str(error))
    assert len(refused) > 20
    assert not [said for said in refused if "\n" in said]


def _spots(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _spots(inner)


def test_a_line_without_its_own_data_is_no_line(line: Line) -> None:
    document = as_json(to_document(line))
    del document[LINE_KEY]
    with pytest.raises(SavedGameError, match="not a line of play"):
        from_document(document, "line-1.json")
