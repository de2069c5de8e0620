"""Games and evaluations from Python: the command line's own, in any thread and inside an event loop."""

from __future__ import annotations

import asyncio
import html
import json
import re
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import entente
from cluster.evaluation.evaluate import diplomacy_request, evaluate, evaluation_rows
from cluster.evaluation.play import play
from cluster.evaluation.players.opening import parse_seats
from opponents.players.chat_players import ChatPlayers
from services.environments.diplomacy.ending import Ending
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS, Position
from services.environments.playing import Decision


def test_a_game_is_the_one_that_the_command_line_plays(tmp_path: Path) -> None:
    outcome = play(parse_seats(["FRANCE=greedy"], "random"), Ending(1902), 3, tmp_path / "theirs.json", ChatPlayers({}))
    game = entente.play({"FRANCE": "greedy"}, until_year=1902, seed=3)
    assert game.outcome == outcome
    assert game.seats == {power: "greedy" if power == "FRANCE" else "random" for power in POWERS}
    assert list(game.centers.values()) == sorted(outcome.centers.values(), reverse=True)
    ours = json.loads(game.save(tmp_path / "ours.json").read_text())
    theirs = json.loads((tmp_path / "theirs.json").read_text())
    assert [phase["orders"] for phase in ours["phases"]] == [phase["orders"] for phase in theirs["phases"]]
    assert "1902" in repr(game)


def test_a_notebook_shows_the_page_that_is_written(tmp_path: Path) -> None:
    game = entente.play(default="hold", until_year=1901)
    page = game.html(tmp_path / "game.html").read_text()
    assert "S1901M" in page
    shown = game._repr_html_()
    assert shown.startswith("<iframe ")
    assert html.unescape(shown.partition('srcdoc="')[2].partition('"')[0]) == page


def test_games_are_played_inside_a_running_event_loop() -> None:
    """A notebook's cells run in one."""
    outside = entente.play({"ITALY": "greedy"}, until_year=1902)
    rows = entente.evaluate("greedy", ["random"], games_per_country=1, until_year=1901)

    async def cell() -> None:
        assert entente.play({"ITALY": "greedy"}, until_year=1902).outcome == outside.outcome
        assert entente.evaluate("greedy", games_per_country=1, until_year=1901) == rows

    asyncio.run(cell())
    request = diplomacy_request(1, Ending(1901))
    assert rows == evaluation_rows(request, ["greedy"], evaluate(request, ["greedy"], ["random"]))


def test_an_error_inside_a_running_event_loop_is_the_same_one() -> None:
    class Broken:
        async def act(self, position: Position, power: str, seed: int) -> Decision:
            raise entente.EntenteError("it broke")

    async def cell() -> None:
        entente.play({"ITALY": Broken()}, until_year=1901)

    with pytest.raises(entente.EntenteError, match="it broke"):
        asyncio.run(cell())


def test_a_player_of_ones_own_is_an_object_with_act() -> None:
    asked: list[tuple[str, str]] = []

    class Still:
        name = "still"

        async def act(self, position: Position, power: str, seed: int) -> Decision:
            asked.append((position.phase, power))
            return Decision(())

    game = entente.play({"RUSSIA": Still()}, default="hold", until_year=1901)
    assert game.seats["RUSSIA"] == "still"
    assert asked == [("S1901M", "RUSSIA"), ("F1901M", "RUSSIA")]
    [row] = entente.evaluate(Still(), Still(), games_per_country=1, until_year=1901)
    assert (row["checkpoint"], row["against"], row["games"]) == ("still", "still", 7)
    assert row["mean_centers"] == pytest.approx(22 / 7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: entente.play({"FRANC": "random"}), "there is no power 'FRANC'; the seven are"),
        (lambda: entente.play({"FRANCE": "randm"}), "'randm' is neither a bot"),
        (lambda: entente.play({"FRANCE": 7}), "7 is no player"),  # type: ignore[dict-item]
        (lambda: entente.play(until_year=1900), "until_year must be a whole number from 1901 to 1999, not 1900"),
        (lambda: entente.play(seed=-1), "seed must be a whole number from 0"),
        (lambda: entente.evaluate("random", []), "against names no player"),
        (lambda: entente.evaluate("random", games_per_country=0), "games_per_country must be a whole number from 1"),
        (lambda: entente.evaluate("random", temperature=-1.0), "temperature must be a number from 0 to 100"),
        (lambda: entente.evaluate("random", temperature="hot"), "temperature must be a number"),  # type: ignore[arg-type]
        (lambda: entente.evaluate("random", 5), "5 is no player"),  # type: ignore[arg-type]
        (lambda: entente.open_player("random", temperature=-1), "temperature must be a number from 0 to 100, not -1"),
        (lambda: entente.open_player("random", temperature=float("nan")), "from 0 to 100, not nan"),
        (lambda: entente.open_player("random", temperature="hot"), "not 'hot'"),  # type: ignore[arg-type]
        (lambda: entente.open_player("random", temperature=True), "not True"),
        (lambda: entente.open_player(7), "7 is no player"),  # type: ignore[arg-type]
        (lambda: entente.open_player(b"random"), "b'random' is no player"),  # type: ignore[arg-type]
        (lambda: entente.play(["FRANCE"]), "seats maps powers to players"),  # type: ignore[arg-type]
        (lambda: entente.play({"france": "hold", "FRANCE": "hold"}), "FRANCE is seated twice"),
        (lambda: entente.play({7: "hold"}), "there is no power 7"),  # type: ignore[dict-item]
        (lambda: entente.play(seed=np.bool_(True)), "seed must be a whole number"),
        (lambda: entente.play(seed=1.0), "seed must be a whole number"),  # type: ignore[arg-type]
        (lambda: entente.play(seed=10**5000), "not a number of many digits"),
        (lambda: entente.play(config=5), "not int"),  # type: ignore[arg-type]
        (lambda: entente.play({"FRANCE": "remote:x"}), "[opponents.remotes.x]"),
        (lambda: entente.load_run("/"), "no run in /"),
    ],
)
def test_what_the_user_can_mend_is_one_line(call: Any, message: str) -> None:
    with pytest.raises(entente.EntenteError) as error:
        call()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_powers_in_any_case_and_numbers_of_numpy_are_taken(tmp_path: Path) -> None:
    theirs = entente.play({"france": "greedy"}, until_year=np.int64(1901), seed=np.uint8(3))  # type: ignore[arg-type]
    ours = entente.play({"FRANCE": "greedy"}, until_year=1901, seed=3)
    written = [game.save(tmp_path / "game.json").read_text() for game in (theirs, ours)]
    assert len({re.sub(r'"timestamp": *\d+', "", text) for text in written}) == 1, "but for the engine's times"
    with entente.open_player("greedy", temperature=np.float32(0.5)) as player:  # type: ignore[arg-type]
        assert player.act(DiplomacyGame(1901).position, "russia", 0).actions


def test_an_interruption_ends_games_inside_a_running_event_loop() -> None:
    """The games run in another thread, which is not left behind."""
    ended: list[str] = []
    main_thread = threading.main_thread().ident
    assert main_thread is not None

    class Endless:
        async def act(self, position: Position, power: str, seed: int) -> Decision:
            try:
                # Again after a while: the exception is lost if it is raised where Python ignores any, as in a callback
                # of the garbage collector.
                while True:
                    signal.pthread_kill(main_thread, signal.SIGINT)
                    await asyncio.sleep(10)
            except asyncio.CancelledError:
                ended.append(power)
                raise

    async def cell() -> None:
        entente.play({"ITALY": Endless()}, until_year=1901)

    before, handler = threading.active_count(), signal.signal(signal.SIGINT, signal.default_int_handler)
    loop = asyncio.new_event_loop()  # asyncio.run would have a handler of its own
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(cell())
    finally:
        loop.close()
        signal.signal(signal.SIGINT, handler)
    assert ended == ["ITALY"]
    assert threading.active_count() == before


def test_a_game_says_who_played_in_its_file_and_its_page(tmp_path: Path) -> None:
    class Still:
        name = "still\x1b[2J" + "x" * 1000

        async def act(self, position: Position, power: str, seed: int) -> Decision:
            return Decision(())

    with entente.open_player("greedy") as greedy:
        game = entente.play({"RUSSIA": Still(), "ITALY": greedy}, default="hold", until_year=1901, seed=4)
    record = json.loads(game.save(tmp_path / "game.json").read_text())["entente"]
    assert (record["seed"], record["until_year"]) == (4, 1901)
    assert {power: seat["kind"] for power, seat in record["seats"].items()} == {
        power: "program" if power == "RUSSIA" else "bot" for power in POWERS
    }
    assert (record["seats"]["ITALY"]["player"], record["seats"]["FRANCE"]["player"]) == ("greedy", "hold")
    assert record["seats"]["RUSSIA"]["player"].startswith("stillxxx")
    page = game.html(tmp_path / "game.html").read_text()
    assert '"player":"greedy"' in page
    assert "is damaged" not in json.loads(page.split('id="data">')[1].split("</script>")[0])["originNote"]
