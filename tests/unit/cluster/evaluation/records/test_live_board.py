"""The board of a game in the terminal."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from typer.testing import CliRunner

from cluster.cli.app import app
from cluster.evaluation.play import play_out
from cluster.evaluation.records.live_board import board, live_board
from opponents.players.chat_players import ChatPlayers
from services.environments.diplomacy.ending import Ending
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS

SEATS = dict.fromkeys(POWERS, "dumbbot")


def shown(game: DiplomacyGame, seats: dict[str, str]) -> str:
    console = Console(file=io.StringIO(), width=160, force_terminal=False)
    console.print(board(game.position, seats))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_board_has_centres_as_bars_and_the_last_orders_with_results() -> None:
    game = DiplomacyGame(1901)
    before = shown(game, SEATS)
    assert "S1901M" in before
    assert "\u2588\u2588\u2588\u2588 4" in before  # Russia's
    game.step({"FRANCE": ("A PAR - BUR",), "GERMANY": ("A MUN - BUR",)})
    after = shown(game, {**SEATS, "FRANCE": "runs/\x1b[31mdemo"})
    assert "F1901M, after S1901M" in after
    assert "A PAR - BUR (bounce)" in after
    assert "\x1b" not in after
    rows = [line.split()[0] for line in after.splitlines() if line.split()[0] in POWERS]
    assert rows == ["RUSSIA", "AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "TURKEY"]


def test_a_terminal_sees_every_phase_and_a_pipe_none() -> None:
    phases: list[str] = []
    game, _ = play_out(SEATS, Ending(1901), 7, ChatPlayers({}), show=lambda each: phases.append(each.phase))
    assert phases[:2] == ["S1901M", "F1901M"]
    assert len(phases) == game.outcome().phases + 1
    terminal, pipe = (Console(file=io.StringIO(), force_terminal=each, width=160) for each in (True, False))
    for console in (terminal, pipe):
        with live_board(SEATS, console) as show:
            assert (show is None) == (console is pipe)
            if show is not None:
                show(game)
    assert isinstance(terminal.file, io.StringIO)
    assert "TURKEY" in terminal.file.getvalue()


def test_piped_output_has_the_result_alone(tmp_path: Path) -> None:
    words = ["play", "--default", "hold", "--until", "1901", "--out", str(tmp_path / "g.json")]
    result = CliRunner().invoke(app, words)
    assert result.output.startswith("year limit after 2 phases, 1901; saved to ")
    assert len(result.output.splitlines()) == 8
