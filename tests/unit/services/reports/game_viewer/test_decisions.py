"""Decisions beside a saved game: written, read, cut to the likeliest orders, and shown only with their own game."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from diplomacy import Game
from diplomacy.utils.export import to_saved_game_format

from services.reports.game_viewer.decisions import (
    SCHEMA,
    GameDecisions,
    Judgement,
    Lines,
    RecordedDecision,
    UnitChoice,
    decisions_path,
    read_decisions,
    unit_choice,
    write_decisions,
)
from services.reports.game_viewer.game_viewer import decisions_beside, make_replay, write_viewer
from services.reports.page import ReportError


def a_choice(chosen: str) -> UnitChoice:
    return unit_choice([chosen, "A PAR H"], [0.75, 0.25], 0.5623, chosen)


def decisions_of(*decisions: RecordedDecision, lines: tuple[str, ...] = ("rules", "position")) -> GameDecisions:
    return GameDecisions(SCHEMA, "tiny", "played", lines, decisions)


@pytest.fixture(scope="module")
def saved() -> dict[str, Any]:
    game = Game(game_id="tiny")
    game.set_orders("FRANCE", ["A PAR - BUR"])
    game.process()
    document: dict[str, Any] = json.loads(json.dumps(to_saved_game_format(game)))
    return document


@pytest.mark.parametrize(
    ("thought", "lines"), [("x" * 100_001, ("rules",)), ("", tuple(map(str, range(20_001)))), ("", ("x" * 100_001,))]
)
def test_texts_that_would_not_be_read_again_are_left_out(tmp_path: Path, thought: str, lines: tuple[str, ...]) -> None:
    decision = RecordedDecision("S1901M", "FRANCE", "demo", (0,), thought, (a_choice("A PAR - BUR"),), 1.0)
    write_decisions(tmp_path / "game.json", decisions_of(decision, lines=lines))
    found = read_decisions(tmp_path / "game.json")
    assert found is not None
    (kept,) = found.decisions
    assert (kept.prompt, kept.thought, kept.choices) == ((), "", decision.choices)
    assert "too long to be kept" in kept.note


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    judgement = Judgement(1.5, None, 0.0, "running", "FRANCE", 1, None, True, 3)
    decision = RecordedDecision("S1901M", "FRANCE", "demo", (0, 1, 0), "a thought", (a_choice("A PAR - BUR"),), 1.0)
    whole = decisions_of(decision, msgspec.structs.replace(decision, phase="F1901M", judgement=judgement))
    path = write_decisions(tmp_path / "game.json", whole)
    assert path == decisions_path(tmp_path / "game.json") == tmp_path / "game.decisions.json.gz"
    found = read_decisions(tmp_path / "game.json")
    assert found == whole
    assert found.prompt(decision) == "rules\nposition\nrules"
    assert read_decisions(tmp_path / "another.json") is None
    assert not list(tmp_path.glob("*.json")), "nothing that reads a folder of games takes it for one"


def test_lines_that_repeat_are_kept_once() -> None:
    lines = Lines()
    assert [lines.add(text) for text in ("rules\nA", "rules\nB\n", "rules\nA")] == [(0, 1), (0, 2, 3), (0, 1)]
    assert lines.all() == ("rules", "A", "B", "")


def test_the_likeliest_orders_are_shown_and_the_others_counted() -> None:
    orders = [f"order {number}" for number in range(20)]
    shares = [0.5, *[0.5 / 19] * 19]
    choice = unit_choice(orders, shares, 1.0, "order 15")
    assert [order for order, _ in choice.orders] == orders[:8]
    assert choice.others == 12
    assert sum(share for _, share in choice.orders) + choice.rest == pytest.approx(1, abs=1e-3)
    assert choice.probability == pytest.approx(0.5 / 19, rel=1e-3)
    assert unit_choice(["A PAR H"], [1.0], -0.0, "A PAR H").entropy == 0


def test_judgements_join_their_decisions() -> None:
    before = RecordedDecision("S1901M", "FRANCE")
    judgement = Judgement(1.0, 0.5, 2.0, "country", "FRANCE", 4, 0.25)
    joined = decisions_of(before, RecordedDecision("S1901M", "ITALY")).judged({("S1901M", "FRANCE"): judgement})
    assert [each.judgement for each in joined.decisions] == [judgement, None]
    assert joined.judged({}) == joined, "what is judged stays judged"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text[:-10], "damaged"),
        (lambda text: b"{}", "damaged"),
        (lambda text: text[:12] + bytes(each ^ 255 for each in text[12:]), "damaged: Error -3 while decompressing"),
        (lambda text: gzip.compress(b"[]"), "Expected `object`"),
        (lambda text: gzip.compress(gzip.decompress(text).replace(b'"schema":1', b'"schema":9')), "it has schema 9"),
        (lambda text: gzip.compress(gzip.decompress(text).replace(b"[0,1]", b"[0,7]")), "a line that the file does"),
        (lambda text: gzip.compress(gzip.decompress(text).replace(b"0.75", b"1e999")), "damaged"),
        (lambda text: gzip.compress(b"[" * 100_000), "damaged"),
    ],
)
def test_a_damaged_file_is_a_note_on_the_page(tmp_path: Path, saved: dict[str, Any], damage: Any, reason: str) -> None:
    file = tmp_path / "game.json"
    file.write_text(json.dumps(saved))
    decision = RecordedDecision("S1901M", "FRANCE", prompt=(0, 1), choices=(a_choice("A PAR - BUR"),))
    path = write_decisions(file, decisions_of(decision))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ReportError, match=reason):
        read_decisions(file)
    decisions, note = decisions_beside(file)
    assert decisions is None
    assert "game.decisions.json.gz is damaged" in note
    write_viewer(file, tmp_path / "game.html")
    assert "game.decisions.json.gz is damaged" in (tmp_path / "game.html").read_text()


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.reports.game_viewer.decisions._MOST_BYTES", 1000)
    decisions_path(tmp_path / "game.json").write_bytes(gzip.compress(b" " * 2000))
    with pytest.raises(ReportError, match="it has more than 1,000 bytes"):
        read_decisions(tmp_path / "game.json")


def test_decisions_of_another_game_are_left_out(saved: dict[str, Any]) -> None:
    own = RecordedDecision("S1901M", "FRANCE", choices=(a_choice("A PAR - BUR"), a_choice("F BRE H")))
    others = [
        RecordedDecision("S1901M", "FRANCE", choices=(a_choice("A PAR - PIC"),)),
        RecordedDecision("S1950M", "FRANCE", choices=(a_choice("A PAR - BUR"),)),
        RecordedDecision("S1901M", "NOWHERE"),
    ]
    replay = make_replay(saved, decisions_of(own, *others))
    assert list(replay.data["decisions"]) == ["S1901M"]
    assert [each["chosen"] for each in replay.data["decisions"]["S1901M"]["FRANCE"]["choices"]] == [
        "A PAR - BUR",
        "F BRE H",
    ]
    assert replay.data["decisionsNote"] == "3 recorded decisions belong to another game and are left out."
    assert make_replay(saved, decisions_of(own)).data["decisionsNote"] == ""
    asked = msgspec.structs.replace(decisions_of(own), made="demo/checkpoints/4")
    assert "what demo/checkpoints/4 thinks" in make_replay(saved, asked).data["decisionsNote"]


def test_no_text_of_a_decision_ends_the_page(tmp_path: Path, saved: dict[str, Any]) -> None:
    file = tmp_path / "game.json"
    file.write_text(json.dumps(saved))
    write_decisions(file, decisions_of(RecordedDecision("S1901M", "FRANCE", prompt=(0,)), lines=("</script><b>",)))
    write_viewer(file, tmp_path / "game.html")
    assert "</script><b>" not in (tmp_path / "game.html").read_text()
