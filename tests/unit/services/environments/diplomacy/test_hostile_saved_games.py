"""A saved game from elsewhere is loaded, shown and imitated, or refused in one line."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo_core.errors import EntenteError
from opponents.demonstrations import saved_demonstrations
from opponents.players.llm_policy import TokenizedLanguage
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.rules.orders import WORD_PATTERN
from services.environments.diplomacy.settings import DiplomacyImitation, GameSettings
from services.environments.diplomacy.text.notation import words
from services.environments.diplomacy.world import Diplomacy
from services.inference.word_tokenizer import make_word_tokenizer
from services.reports.game_viewer.game_viewer import write_viewer

WORLD = Diplomacy(GameSettings())
TOKENS = TokenizedLanguage(WORLD.language, make_word_tokenizer(words(), WORD_PATTERN))
USES: dict[str, Callable[[Path], object]] = {
    "loaded": lambda path: DiplomacyGame.load(path, 1903),
    "imitated": lambda path: list(saved_demonstrations(WORLD, DiplomacyImitation(), path, TOKENS)),
    "shown": lambda path: write_viewer(path, path.with_suffix(".html")),
}


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    game = DiplomacyGame(1901, "a")
    for power, order in (("FRANCE", "A PAR - BUR"), ("RUSSIA", "F STP/SC - BOT")):
        game.set_orders(power, [order])
    game.process()
    game.save(tmp_path / "whole.json")
    return dict(json.loads((tmp_path / "whole.json").read_text()))


def refusal(use: str, path: Path) -> str:
    with pytest.raises(EntenteError) as caught:
        USES[use](path)
    assert len(str(caught.value)) <= 500
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.mark.parametrize("use", USES)
def test_what_is_no_document_is_refused(use: str, tmp_path: Path) -> None:
    path = tmp_path / "game.json"
    for content in (
        b"[" * 100_000,
        b'{"phases": ' + b"1" * 10_000 + b"}",
        b"\xff",
        b"\0",
        b'{"phases": ["\\ud800"]}',
        b'{"phases": 3}',
    ):
        path.write_bytes(content)
        refusal(use, path)
    path.unlink()
    os.mkfifo(path)
    assert "a FIFO" in refusal(use, path)
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "a device" in refusal(use, path)
    path.unlink()
    path.touch()
    os.truncate(path, 1 << 40)
    assert "at most 64 MiB are read" in refusal(use, path)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "name", ["../../../../../../etc/passwd", "/etc/passwd", "standard\0", "x" * 1000, 3, ["standard"], None]
)
def test_a_map_is_named_and_no_path(use: str, name: Any, document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "game.json"
    path.write_text(json.dumps(document | {"map": name}))
    refusal(use, path)


@pytest.mark.parametrize("use", USES)
def test_a_game_of_more_phases_than_any_has_is_refused_before_the_engine_reads_it(
    use: str, document: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "game.json"
    phase = {"name": "S1901M", "state": {"name": "S1901M"}}
    path.write_text(json.dumps(document | {"phases": [phase] * 1001}))
    assert "1000" in refusal(use, path)


@pytest.mark.parametrize("use", USES)
def test_a_list_longer_than_the_map_is_refused_before_the_engine_reads_it(
    use: str, document: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "game.json"
    phase = document["phases"][-1]
    for table, key, entry in ((phase, "orders", "A PAR H"), (phase["state"], "units", "A PAR")):
        kept = table[key]
        table[key] = {"FRANCE": [entry] * 82}
        path.write_text(json.dumps(document))
        assert "81" in refusal(use, path)
        table[key] = kept


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("state", "units", "FRANCE"), ["A XXX"] * 5000),
        (("state", "units", "FRANCE"), [3]),
        (("state", "units", "FRANCE"), "A PAR"),
        (("state", "units"), []),
        (("state", "units", "NOBODY"), ["A PAR"]),
        (("state", "centers", "FRANCE"), ["../x"]),
        (("state", "retreats", "FRANCE"), {"A PAR": "BUR"}),
        (("state", "homes"), {"FRANCE": None}),
        (("state", "name"), "S99999999M"),
        (("state", "name"), "?"),
        (("state", "name"), 3),
        (("state",), None),
        (("orders",), []),
        (("orders", "FRANCE"), [None]),
        (("orders", "FRANCE"), "A PAR H"),
        (("name",), None),
    ],
)
@pytest.mark.parametrize("use", ["loaded", "imitated"])
def test_odd_phases_are_refused(
    use: str, place: tuple[str, ...], value: Any, document: dict[str, Any], tmp_path: Path
) -> None:
    part = document["phases"][-1]
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    path = tmp_path / "game.json"
    path.write_text(json.dumps(document))
    assert "not a saved game" in refusal(use, path)


@pytest.mark.parametrize("rules", [3, None, "NO_CHECK", [["NO_CHECK"]], ["x" * 100_000], {"a": 1}])
def test_odd_rules_are_refused(rules: Any, document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "game.json"
    path.write_text(json.dumps(document | {"rules": rules}))
    refusal("loaded", path)


@pytest.mark.parametrize("messages", [3, [3], [{"sender": "FRANCE"}]])
def test_odd_messages_are_refused_and_the_engine_says_nothing(
    messages: Any, document: dict[str, Any], tmp_path: Path
) -> None:
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    engine = logging.getLogger("diplomacy")
    document["phases"][-1]["messages"] = messages
    (tmp_path / "game.json").write_text(json.dumps(document))
    engine.addHandler(handler)
    try:
        assert "not a saved game" in refusal("loaded", tmp_path / "game.json")
    finally:
        engine.removeHandler(handler)
    assert logged == []


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "record", [None, 3, [[]], {"seats": {"FRANCE": None}}, {"schema": 1, "seats": {"X" * 100_000: {}}}, "\x1b[2J"]
)
def test_a_damaged_record_of_who_played_does_not_keep_a_game_from_use(
    use: str, record: Any, document: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "game.json"
    path.write_text(json.dumps(document | {"entente": record}))
    USES[use](path)


def test_the_whole_game_is_still_read_everywhere(document: dict[str, Any], tmp_path: Path) -> None:
    for use in USES.values():
        use(tmp_path / "whole.json")
