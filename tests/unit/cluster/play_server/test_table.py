"""The table: players answer ahead, failures are shown and tried again, and what was not saved has not happened."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from cluster.play_server import entry
from cluster.play_server import table as table_module
from cluster.play_server.entry import RefusedError
from cluster.play_server.players import PlayerError, Players
from cluster.play_server.seats import PERSON, Source
from cluster.play_server.storage import GamesFolder
from cluster.play_server.table import MissingError, Table, Watcher
from cluster.play_server.views import line_view, session_view
from grpo_core.errors import StorageError
from opponents.players.chat_players import ChatPlayers
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.position import Position
from services.environments.playing import Decision, Policy
from tests.unit.cluster.play_server.lines import seats

LIMIT_S = 60.0
BOTS = {name: Source("bot", name) for name in ("dumbbot", "hold", "greedy")}


class Moody:
    """A player that fails or waits as it is told."""

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.waits_s = 0.0
        self.asked = 0

    async def act(self, view: Position, seat: str, seed: int) -> Decision:
        self.asked += 1
        await asyncio.sleep(self.waits_s)
        if self.problem is not None:
            raise self.problem
        return await make_bot("hold").act(view, seat, seed)


@pytest.fixture
def moody(monkeypatch: pytest.MonkeyPatch) -> Moody:
    made = Moody()

    async def opened(self: Players, name: str) -> Policy:
        return made if name == "moody" else make_bot(name)

    monkeypatch.setattr(Players, "_open", opened)
    return made


@pytest.fixture
def players() -> Iterator[Players]:
    made = Players({**BOTS, "moody": Source("policy", "moody")}, ChatPlayers({}))
    yield made
    made.close()


Work = Callable[[Table], Awaitable[None]]


def at_a_table(folder: Path, players: Players, work: Work) -> None:
    """Run ``work`` with a table over ``folder``."""

    async def run() -> None:
        table = Table(GamesFolder(folder), players, seats())
        try:
            await asyncio.wait_for(work(table), LIMIT_S)
        finally:
            table.is_closing = True

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; the caller has a limit."""
    while not condition():
        await asyncio.sleep(0.005)


def test_a_person_plays_and_the_others_have_answered_already(tmp_path: Path, players: Players) -> None:
    async def work(table: Table) -> None:
        line = await table.begin(seats(FRANCE=PERSON), seed=7, until="1901")
        await until(lambda: bool((found := table.round(line)) and found.answers and found.is_complete()))
        view = line_view(table.line(1), table.round(line), 0)
        assert view["present"]["waiting"] == ["FRANCE"]
        assert view["present"]["answers"]["ITALY"] == {"state": "ready", "problem": ""}
        assert "A VEN" not in str(view["present"]["answers"])  # no orders are told before the phase is over
        assert view["present"]["orders"] == {}
        await table.change(1, "S1901M", lambda each: entry.enter(each, "FRANCE", "A PAR - BUR"))
        await table.change(1, "S1901M", entry.submit)
        await until(lambda: table.line(1).present.name == "F1901M")
        assert table.line(1).phases[0].orders["FRANCE"][0] == "A PAR - BUR"
        await table.change(1, "F1901M", entry.submit)
        await until(lambda: table.line(1).present.name != "F1901M")
        with pytest.raises(RefusedError, match="is over"):
            await table.change(1, "F1901M", entry.submit)

    at_a_table(tmp_path, players, work)


def test_a_game_without_people_goes_on_by_single_steps(tmp_path: Path, players: Players) -> None:
    async def work(table: Table) -> None:
        await table.begin(seats(), seed=7, until="1901")
        await asyncio.sleep(0.1)
        assert table.line(1).present.name == "S1901M"
        await table.change(1, "S1901M", entry.submit)
        await until(lambda: table.line(1).present.name == "F1901M")
        assert not table.line(1).submitted

    at_a_table(tmp_path, players, work)


def test_a_restart_goes_on_in_mid_phase(tmp_path: Path, players: Players, moody: Moody) -> None:
    moody.waits_s = LIMIT_S

    async def before(table: Table) -> None:
        await table.begin(seats("hold", FRANCE=PERSON, ITALY="moody"), seed=7, until="1901")
        await table.change(1, "S1901M", lambda each: entry.enter(each, "FRANCE", "A PAR - BUR"))
        await table.change(1, "S1901M", entry.submit)

    async def after(table: Table) -> None:
        line = table.line(1)
        assert (dict(line.entered), line.submitted) == ({"FRANCE": ("A PAR - BUR",)}, True)
        table.wake(1)  # as the page does that opens it
        await until(lambda: table.line(1).present.name == "F1901M")
        assert table.line(1).phases[0].orders["FRANCE"] == ("A PAR - BUR",)

    at_a_table(tmp_path, players, before)
    moody.waits_s = 0.0
    at_a_table(tmp_path, players, after)


@pytest.mark.parametrize("problem", [RuntimeError("no memory"), ValueError("x\n" * 900), PlayerError("closed")])
def test_a_player_that_fails_is_shown_and_asked_again(
    tmp_path: Path, players: Players, moody: Moody, problem: Exception
) -> None:
    async def work(table: Table) -> None:
        moody.problem = problem
        line = await table.begin(seats("hold", FRANCE=PERSON, ITALY="moody"), seed=7, until="1901")
        await table.change(1, "S1901M", entry.submit)
        await until(
            lambda: line_view(table.line(1), table.round(line), 0)["present"]["answers"]["ITALY"]["state"] == "failed"
        )
        said = line_view(table.line(1), table.round(line), 0)["present"]["answers"]["ITALY"]["problem"]
        assert said
        assert "\n" not in said
        assert table.line(1).present.name == "S1901M"
        moody.problem = None
        table.retry(1)
        await until(lambda: table.line(1).present.name == "F1901M")
        assert moody.asked >= 2

    at_a_table(tmp_path, players, work)


def test_another_player_takes_the_seat_of_one_that_fails(tmp_path: Path, players: Players, moody: Moody) -> None:
    async def work(table: Table) -> None:
        moody.problem = RuntimeError("gone")
        await table.begin(seats("hold", FRANCE=PERSON, ITALY="moody"), seed=7, until="1901")
        await table.change(1, "S1901M", entry.submit)
        await until(lambda: moody.asked > 0)
        await table.seat(1, "S1901M", "ITALY", "dumbbot")
        await until(lambda: table.line(1).present.name == "F1901M")
        assert table.line(1).phases[0].players["ITALY"] == "dumbbot"
        with pytest.raises(MissingError, match=r"no player is called '\.\./x'"):
            await table.seat(1, "F1901M", "ITALY", "../x")

    at_a_table(tmp_path, players, work)


def test_a_player_that_is_too_slow_is_given_up(
    tmp_path: Path, players: Players, moody: Moody, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.play_server.players.DECISION_TIMEOUT_S", 0.01)
    moody.waits_s = LIMIT_S

    async def work(table: Table) -> None:
        line = await table.begin(seats("hold", ITALY="moody"), seed=7, until="1901")
        await until(lambda: "did not answer within" in str(line_view(line, table.round(line), 0)["present"]["answers"]))

    at_a_table(tmp_path, players, work)


def test_a_change_that_cannot_be_saved_has_not_happened(
    tmp_path: Path, players: Players, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(table: Table) -> None:
        await table.begin(seats("hold", FRANCE=PERSON), seed=7, until="1901")
        before = table.line(1)

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("os.fsync", full)
            with pytest.raises(StorageError, match="disk is full"):
                await table.change(1, "S1901M", lambda each: entry.enter(each, "FRANCE", "A PAR - BUR"))
        assert table.line(1) is before
        await table.change(1, "S1901M", lambda each: entry.enter(each, "FRANCE", "A PAR - BUR"))
        assert GamesFolder(tmp_path).read()[0][1].entered == {"FRANCE": ("A PAR - BUR",)}

    at_a_table(tmp_path, players, work)


def test_lines_are_bounded_and_named_seats_complete(
    tmp_path: Path, players: Players, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.play_server.table.MOST_LINES", 2)

    async def work(table: Table) -> None:
        with pytest.raises(RefusedError, match="no player is named for AUSTRIA"):
            await table.begin({"FRANCE": "hold"}, seed=1, until="1901")
        await table.begin(seats("hold"), seed=1, until="1901")
        forked = await table.fork(1, 0, redraw=True)
        assert (forked.id, forked.parent, forked.seed != 1) == (2, 1, True)
        with pytest.raises(RefusedError, match="there are 2 lines"):
            await table.fork(1, 0, redraw=False)
        with pytest.raises(MissingError, match="has no phase 5"):
            await table.fork(1, 5, redraw=False)
        shown = session_view(table, {})
        assert [(line["id"], line["parent"]) for line in shown["lines"]] == [(1, None), (2, 1)]

    at_a_table(tmp_path, players, work)


def test_a_watcher_learns_of_all_changes_at_once() -> None:
    async def work() -> None:
        watcher = Watcher()
        assert await watcher.wait(0.01) == []
        for line in (3, 1, 3):
            watcher.tell(line)
        assert await watcher.wait(1.0) == [1, 3]
        assert await watcher.wait(0.01) == []

    asyncio.run(work())


def test_hints_of_bots_are_shares_of_tries_and_others_say_why_not(players: Players, moody: Moody) -> None:
    from services.environments.diplomacy.game import DiplomacyGame

    position = DiplomacyGame(1901).position
    note, sheets = asyncio.run(players.hints("dumbbot", position, "FRANCE"))
    assert "40 tries" in note
    assert 1 <= len(sheets) <= 5
    assert 0 < sum(sheet.probability for sheet in sheets) <= 1
    with pytest.raises(PlayerError, match="moody tells no probabilities"):
        asyncio.run(players.hints("moody", position, "FRANCE"))
    with pytest.raises(PlayerError, match="no player is called 'unknown' now"):
        asyncio.run(players.hints("unknown", position, "FRANCE"))


def test_a_saved_game_that_takes_too_long_is_refused(
    tmp_path: Path, players: Players, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "LOADED_PHASES_TIMEOUT_S", 0.0)

    async def work(table: Table) -> None:
        with pytest.raises(RefusedError, match="was not read within 0 s"):
            await table.load({}, "game.json", seed=1, until="1901")
        assert not table.lines

    at_a_table(tmp_path, players, work)
