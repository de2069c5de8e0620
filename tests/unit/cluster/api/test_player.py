"""An open player decides from any thread and any event loop, always in a loop of its own."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import entente
from cluster.actors.initial_policy import make_policy
from cluster.api.player import Player
from cluster.configs.loader import load_config
from grpo_core.models.pretrained import save_model
from opponents.players.chat_players import ChatPlayers
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import Position
from services.environments.playing import Decision
from services.environments.seat_player import SeatPlayer
from tests.paths import ROOT
from tests.unit.services.inference.chat_endpoint.endpoint_server import FakeEndpoint

OPENING = DiplomacyGame(1901).position
SLEEPER = SeatPlayer("sleeper", "program")


class Sleeper:
    """Decides for an hour."""

    def __init__(self) -> None:
        self.begun, self.given_up = threading.Event(), threading.Event()

    async def act(self, position: Position, power: str, seed: int) -> Decision:
        self.begun.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.given_up.set()
            raise
        return Decision(())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small policy with random weights."""
    path = tmp_path_factory.mktemp("policy")
    config = load_config("smoke")
    model, tokenizer = make_policy(config.policy, 0, config.world.language)
    save_model(model, tokenizer, path)
    return path


def test_one_engine_answers_threads_and_event_loops_alike(folder: Path) -> None:
    with entente.open_player(folder) as player:
        first = player.act(OPENING, "FRANCE", 1)
        assert len(first.orders) == 3

        async def several() -> list[tuple[str, ...]]:
            return [
                each.orders for each in await asyncio.gather(*(player.act_async(OPENING, "FRANCE", 1) for _ in "ab"))
            ]

        assert asyncio.run(several()) == asyncio.run(several()) == [first.orders] * 2  # in two event loops
        with ThreadPoolExecutor(2) as threads:
            answers = list(threads.map(lambda seed: player.act(OPENING, "FRANCE", seed), [1, 1]))
        assert [each.orders for each in answers] == [first.orders] * 2


def test_a_seated_player_stays_open_for_further_games(folder: Path) -> None:
    named = entente.play({"FRANCE": folder}, until_year=1901)
    with entente.open_player(folder) as player:
        for _ in range(2):
            game = entente.play({"FRANCE": player}, until_year=1901)
            assert game.outcome == named.outcome
        assert game.seats["FRANCE"] == str(folder)
        [row] = entente.evaluate(player, games_per_country=1, until_year=1901)
        assert row["checkpoint"] == str(folder)


def test_the_temperature_is_the_one_that_was_asked_for(folder: Path) -> None:
    with entente.open_player(folder, temperature=0.0) as greedy, entente.open_player(folder) as sampling:
        assert len({greedy.act(OPENING, "FRANCE", seed).actions for seed in range(4)}) == 1
        assert len({sampling.act(OPENING, "FRANCE", seed).actions for seed in range(4)}) > 1


def test_a_closed_player_says_so_and_leaves_no_thread() -> None:
    before = threading.active_count()
    player = entente.open_player("random")
    player.act(OPENING, "ITALY", 0)
    assert threading.active_count() == before + 1
    player.close()
    player.close()
    assert threading.active_count() == before
    with pytest.raises(entente.EntenteError, match="the player random is closed"):
        player.act(OPENING, "ITALY", 0)
    with pytest.raises(entente.EntenteError, match="there is no power 'italia'"):
        player.act(OPENING, "italia", 0)


def test_a_program_ends_although_its_players_are_open() -> None:
    code = (
        "import entente\n"
        "from services.environments.diplomacy.game import DiplomacyGame\n"
        "player = entente.open_player('greedy')\n"
        "print(len(player.act(DiplomacyGame(1901).position, 'RUSSIA', 0).actions))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "4\n", "")


def test_a_program_ends_although_a_decision_is_under_way() -> None:
    code = (
        "import threading\n"
        "from cluster.api.player import Player\n"
        "from opponents.players.chat_players import ChatPlayers\n"
        "from tests.unit.cluster.api.test_player import OPENING, SLEEPER, Sleeper\n"
        "sleeper = Sleeper()\n"
        "player = Player('sleeper', sleeper, ChatPlayers({}), SLEEPER)\n"
        "threading.Thread(target=player.act, args=(OPENING, 'RUSSIA', 0), daemon=True).start()\n"
        "print(sleeper.begun.wait(60))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_closing_a_player_gives_up_its_decisions() -> None:
    sleeper, other = Sleeper(), Sleeper()
    player = Player("sleeper", sleeper, ChatPlayers({}), SLEEPER)
    said: list[str] = []

    def decide() -> None:
        with pytest.raises(entente.EntenteError) as error:
            player.act(OPENING, "RUSSIA", 0)
        said.append(str(error.value))

    deciding = threading.Thread(target=decide, daemon=True)
    closing = threading.Thread(target=player.close, daemon=True)
    deciding.start()
    assert sleeper.begun.wait(60)
    closing.start()
    closing.join(60)
    deciding.join(60)
    assert not closing.is_alive()
    assert said == ["the player sleeper was closed while it decided"]

    async def decide_here() -> None:
        player = Player("sleeper", other, ChatPlayers({}), SLEEPER)
        answer = asyncio.ensure_future(player.act_async(OPENING, "RUSSIA", 0))
        assert await asyncio.to_thread(other.begun.wait, 60)
        await asyncio.to_thread(player.close)
        await answer

    with pytest.raises(entente.EntenteError, match="was closed while it decided"):
        asyncio.run(decide_here())


def test_an_interruption_gives_up_the_decision() -> None:
    sleeper, main_thread = Sleeper(), threading.main_thread().ident
    assert main_thread is not None

    def interrupt() -> None:
        sleeper.begun.wait(60)
        signal.pthread_kill(main_thread, signal.SIGINT)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Player("sleeper", sleeper, ChatPlayers({}), SLEEPER) as player:
            threading.Thread(target=interrupt).start()
            with pytest.raises(KeyboardInterrupt):
                player.act(OPENING, "RUSSIA", 0)
            assert sleeper.given_up.wait(60), "while the player is open"
    finally:
        signal.signal(signal.SIGINT, handler)


def test_a_remote_players_calls_are_counted_and_its_table_may_be_a_mapping(chat_endpoint: FakeEndpoint) -> None:
    table = {"opponents": {"remotes": {"friend": {"base_url": chat_endpoint.url, "model": "some-model"}}}}
    with entente.open_player("remote:friend", config=table) as player:
        assert player.act(OPENING, "FRANCE", 0).actions
        assert player.costs["decisions"] == 1
        game = entente.play({"FRANCE": player}, default="hold", until_year=1901)
        assert game.seats["FRANCE"] == "remote:friend"
        assert player.costs["decisions"] == 3
        assert len(chat_endpoint.requests) == player.costs["calls"] >= 3
    assert entente.open_player("hold").costs == {}
    with pytest.raises(entente.EntenteError, match="foe"):
        entente.open_player("remote:foe", config=table)
