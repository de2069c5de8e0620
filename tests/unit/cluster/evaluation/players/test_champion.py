"""``champion`` is a player wherever one is named, with the settings in its folder, and never a folder by accident."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

import entente
from cluster.actors.initial_policy import check_policy, make_policy
from cluster.cli.app import main
from cluster.configs.loader import load_config
from cluster.configs.shareable import shareable
from cluster.diagnostics.paths import policy_files
from cluster.errors import RunError
from cluster.evaluation.evaluate import diplomacy_request, evaluate, evaluation_rows
from cluster.evaluation.figures.comparison import compare_players
from cluster.evaluation.players import opening
from cluster.evaluation.players.opening import check_player, newest, open_policy
from cluster.evaluation.players.weights import weights_of
from cluster.evaluation.records.decision_recorder import policy_of
from cluster.evaluation.records.game_origins import describe_player
from cluster.evaluation.tables.places import processes_for, this_process
from cluster.play_server import players
from cluster.play_server.command import play_in_browser, player_sources
from cluster.play_server.seats import Source
from cluster.runtime.memory import policy_size
from grpo_core.checkpoints.folders import weights_checksum
from grpo_core.errors import CheckpointError
from grpo_core.models.named_tensors import named_tensors
from grpo_core.models.pretrained import load_model
from opponents.champion import shipped
from opponents.champion.shipped import ROOM, WEIGHTS, ChampionError, shipped_champion
from opponents.player_names import PROPOSAL_TEMPERATURE
from opponents.players.chat_players import ChatPlayers
from opponents.players.llm_policy import LLMPolicy
from opponents.population.population import Population
from services.environments.diplomacy.bots.lookahead.policy import LookaheadPolicy
from services.environments.diplomacy.ending import Ending
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.game_origin import ORIGIN_KEY
from tests.unit.opponents.population_cases import make_run

REMOTES = ChatPlayers({})
WITH_NOTES = ("policy.notes=true", "policy.context_length=768", "inference.max_completion_length=448")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own working directory with a folder called champion, which is no player."""
    (tmp_path / "champion").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package whose champion lost a byte."""
    room = tmp_path / "room"
    shutil.copytree(ROOM, room)
    weights = room / WEIGHTS / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    monkeypatch.setattr(shipped.shipped_champion, "__defaults__", (room,))


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Calls the command line; returns the exit code and what it said."""

    def call(*arguments: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["entente", *arguments])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code, said.out + said.err

    return call


def test_a_folder_of_that_name_does_not_shadow_it(here: Path) -> None:
    champion = shipped_champion()
    check_player("champion", REMOTES)
    assert newest("champion") == "champion"
    assert weights_of("champion") == (champion.version, champion.checksum)
    assert processes_for(["champion"]) >= 1
    with pytest.raises(CheckpointError, match=r"champion has no config.json"):
        check_player("./champion", REMOTES)
    (here / "champion").rmdir()
    run = make_run(here / "champion", 1)
    assert newest("champion") == "champion"
    assert newest("./champion") == str(Path("champion/checkpoints/4"))
    assert weights_of("champion") == (champion.version, champion.checksum)
    assert describe_player(newest("champion"), REMOTES).checksum == champion.checksum
    assert describe_player(newest("./champion"), REMOTES).checksum == weights_checksum(run / "checkpoints" / "4")


def test_errors_mention_it_among_the_players() -> None:
    with pytest.raises(RunError, match=r"'nobody' is neither a bot \(.*\) nor champion nor the folder"):
        check_player("nobody", REMOTES)


def test_it_plays_with_the_settings_in_its_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = json.loads((ROOM / WEIGHTS / "entente.json").read_text())["config"]
    seen = {}

    def spy(engine, tokens, settings, policy, temperature):
        seen.update(settings=settings, temperature=temperature)
        return language_policy(engine, tokens, settings, policy, temperature)

    language_policy = opening.language_policy
    monkeypatch.setattr(opening, "language_policy", spy)
    assert isinstance(open_policy("policy:champion", REMOTES, evaluation=True), LLMPolicy)
    assert seen["temperature"] == made["evaluation"]["temperature"]
    assert seen["settings"].decoding == made["inference"]["decoding"]
    assert seen["settings"].max_completion_length == made["inference"]["max_completion_length"]
    open_policy("policy:champion", REMOTES)
    assert seen["temperature"] == made["inference"]["temperature"]
    for temperature, expected in ((None, PROPOSAL_TEMPERATURE), (0.2, 0.2)):
        open_policy("champion", REMOTES, temperature=temperature, evaluation=True)
        described = describe_player("champion", REMOTES, temperature=temperature, evaluation=True)
        assert seen["temperature"] == described.temperature == expected


def test_it_looks_ahead_unless_its_policy_alone_is_named(here: Path) -> None:
    run = make_run(here / "run", 1)
    for name in ("champion", "lookahead:champion", "lookahead:run", "lookahead:run:policy/v2"):
        check_player(name, REMOTES)
        found = open_policy(newest(name), REMOTES)
        assert isinstance(found, LookaheadPolicy), name
        assert isinstance(asyncio.run(policy_of(found, "FRANCE")), LLMPolicy)
    for name in ("policy:champion", "policy:run", "run"):
        assert isinstance(open_policy(newest(name), REMOTES), LLMPolicy), name
    assert newest("lookahead:run") == f"lookahead:{Path('run/checkpoints/4')}"
    checksum = weights_checksum(run / "checkpoints" / "4")
    assert weights_of("lookahead:run/checkpoints/4") == (4, checksum)
    assert weights_of("policy:champion") == weights_of("champion")
    ahead = describe_player("lookahead:run/checkpoints/4", REMOTES)
    assert (ahead.player, ahead.version, ahead.checksum) == ("lookahead:run/checkpoints/4", 4, checksum)
    champion = shipped_champion()
    for name in ("policy:champion", "lookahead:champion"):
        described = describe_player(name, REMOTES)
        assert (described.player, described.checksum) == (name, champion.checksum)


def test_only_saved_policies_look_ahead_and_only_where_games_can_be_simulated(here: Path) -> None:
    make_run(here / "run", 1)
    for name in (
        "lookahead:dumbbot",
        "policy:dumbbot",
        "lookahead:remote:gpt",
        "lookahead:policy:champion",
        "policy:",
        "lookahead:run:bot/random",
        "muted:dumbbot",
    ):
        with pytest.raises(RunError, match=r"before the colon stands how a saved policy plays"):
            check_player(name, REMOTES)
    with pytest.raises(RunError, match=r"neither a bot .* a policy after lookahead: or muted:"):
        check_player("lookahead:nobody", REMOTES)
    with pytest.raises(RunError, match=r"these games have no letters to withhold; play them with --press"):
        open_policy("muted:run", REMOTES)
    kuhn = load_config("kuhn").world
    with pytest.raises(RunError, match=r"plays by simulated games, and the world kuhn has none"):
        check_player("lookahead:run", REMOTES, type(kuhn))


def test_a_damaged_champion_is_refused_in_one_line(damaged: None, command) -> None:
    line = r"the champion's weights are not whole: weights/model.safetensors; reinstall the package"
    for refuse in (
        lambda: check_player("champion", REMOTES),
        lambda: describe_player("champion", REMOTES),
        lambda: make_policy(
            load_config("smoke", ["policy.path=champion"]).policy, 0, load_config("smoke").world.language
        ),
        lambda: entente.open_player("champion"),
    ):
        with pytest.raises(ChampionError, match=line):
            refuse()
    code, said = command("evaluate", "champion", "--against", "dumbbot")
    assert (code, said) == (2, f"error: {line}\n")
    [found] = policy_files(load_config("smoke", ["policy.path=champion"]).policy, load_config("smoke").run)
    assert (found.level, found.text) == ("fault", line)


def test_a_game_to_1901_says_that_it_played(here: Path, command) -> None:
    code, said = command(
        "play", "--seat", "FRANCE=champion", "--until", "1901", "--out", "game.json", "--html", "g.html"
    )
    assert code == 0, said
    assert re.search(r"FRANCE +champion +\d+ centres", said)
    game = (here / "game.json").read_text()
    seats = json.loads(game)[ORIGIN_KEY]["seats"]
    champion = shipped_champion()
    assert seats["FRANCE"]["player"] == "champion"
    assert seats["FRANCE"]["kind"] == "shipped"
    assert seats["FRANCE"]["version"] == champion.version
    assert seats["FRANCE"]["checksum"] == champion.checksum == weights_checksum(ROOM / WEIGHTS)
    assert {seat["player"] for power, seat in seats.items() if power != "FRANCE"} == {"random"}
    assert str(ROOM) not in game
    code, said = command("replay", "game.json", "--policy", "champion", "--out", "replay.html")
    assert code == 0, said
    assert re.search(r"\b[2-6] decisions", said)  # of the power that it played alone
    assert str(ROOM) not in (here / "replay.html").read_text()
    code, said = command("replay", "game.json", "--policy", "./champion")
    assert code == 2
    assert "champion has no config.json" in said


def test_rows_have_its_name_version_and_checksum(here: Path) -> None:
    request = diplomacy_request(1, Ending(1901))
    champion = shipped_champion()
    alone = "policy:champion"  # six of them do not look ahead in every seat
    [row] = evaluation_rows(request, ["champion"], evaluate(request, ["champion"], [alone], this_process))
    expected = ("champion", champion.version, champion.checksum)
    assert (row["checkpoint"], row["version"], row["checksum"]) == expected
    assert (row["against"], row["against_version"], row["against_checksum"]) == (alone, *expected[1:])
    found = compare_players(request, ["champion", "hold"], ["hold"], mixed=True, open_place=this_process)
    assert [(row["checkpoint"], row["version"], row["checksum"]) for row in found.rows] == [
        expected,
        ("hold", None, None),
    ] * 2


@pytest.mark.parametrize(
    "arguments",
    [
        (
            "evaluate",
            "hold",
            "--against",
            "policy:champion",
            "--games-per-country",
            "1",
            "--until",
            "1901",
            "--processes",
            "1",
        ),
        ("scenarios", "run", "champion", "--family", "opening", "--country", "FRANCE", "--repeats", "1"),
    ],
)
def test_commands_take_it(here: Path, command, arguments: tuple[str, ...]) -> None:
    code, said = command(*arguments)
    assert code == 0, said
    assert "champion" in said


def test_the_page_lists_it_and_opens_it_only_when_it_is_asked(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = player_sources([], [], REMOTES)
    assert sources["champion"] == Source("policy", "champion", is_opened_ahead=False)
    with pytest.raises(RunError, match="two players are called 'champion'"):
        player_sources(["champion=hold"], [], REMOTES)
    assert player_sources(["best=champion"], [], REMOTES)["best"] == Source("policy", "champion")
    opened: list[str] = []
    monkeypatch.setattr(players, "open_policy", lambda name, *_: opened.append(name) or open_policy(name, REMOTES))
    server = players.Players(sources, REMOTES)
    try:
        server.open_ahead()
        orders = asyncio.run(server.decide("champion", DiplomacyGame(1901).position, "FRANCE", 1))
        assert len(orders) == 3
        assert opened == ["champion"]
        assert server.describe("champion").player == "champion"
    finally:
        server.close()


def test_a_seated_champion_is_opened_ahead(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: dict[str, Source] = {}
    monkeypatch.setattr("cluster.play_server.server.serve", lambda _, sources, *rest: served.update(sources))
    for default, ahead in (("hold", False), ("champion", True)):
        play_in_browser(
            host="127.0.0.1", port=0, allow_network=False, games_dir=here, seats=["FRANCE=person"], default=default,
            players=[], runs=[], until="1901", seed=1, open_browser=False, remotes=REMOTES, say=print, warn=print,
        )  # fmt: skip
        assert served["champion"].is_opened_ahead is ahead


def test_python_opens_it_by_name_and_a_folder_by_its_path(here: Path) -> None:
    champion = shipped_champion()
    with entente.open_player("champion") as player:
        assert player.name == player.description.player == "champion"
        assert (player.description.version, player.description.checksum) == (champion.version, champion.checksum)
    for path in (Path("champion"), "./champion"):
        with pytest.raises(entente.EntenteError, match=r"champion has no config.json"):
            entente.open_player(path)
        with pytest.raises(entente.EntenteError, match=r"champion has no config.json"):
            entente.evaluate(path, "hold", games_per_country=1, until_year=1901)


def test_another_folder_called_champion_is_described_as_a_folder(tmp_path: Path) -> None:
    shutil.copytree(ROOM / WEIGHTS, tmp_path / "champion")
    (tmp_path / "champion" / "entente.json").unlink()
    assert describe_player(str(tmp_path / "champion"), REMOTES).player == "./champion"


def test_a_run_starts_from_it(here: Path) -> None:
    config = load_config("smoke", ["policy.path=champion", *WITH_NOTES])
    check_policy(config.policy, config.inference, config.world.language)
    model, tokenizer = make_policy(config.policy, 0, config.world.language)
    expected = named_tensors(load_model(ROOM / WEIGHTS)[0])
    found = named_tensors(model)
    assert found.keys() == expected.keys()
    assert all(tensor.equal(expected[name]) for name, tensor in found.items())
    assert tokenizer.get_vocab()
    shape, parameters = policy_size(config.policy)
    assert shape.hidden == model.config.hidden_size
    assert parameters > 0
    [finding] = policy_files(config.policy, config.run)
    assert finding.level == "ok"
    assert shareable(config)["policy"]["path"] == "champion"
    assert shareable(load_config("smoke", ["policy.path=./champion"]))["policy"]["path"] == "./champion"


def test_it_joins_a_population_whatever_the_runs_shape(here: Path, command) -> None:
    run = make_run(here / "run", 1)
    code, said = command("population", "add", "champion", "--to", "run", "--pin")
    assert code == 0, said
    population = Population.load(run / "population.json")
    member = population["player/champion"]
    assert (member.version, member.source, member.pinned) == (shipped_champion().version, "champion", True)
    assert member.checksum == shipped_champion().checksum
    population.verify(member)
    code, said = command("population", "add", "champion", "--member", "policy/v2", "--to", "run")
    assert code == 2
    assert "cannot play as it is" in said
    code, said = command("population", "add", "./run", "--as-it-is", "--id", "itself", "--to", "run")
    assert code == 0, said
    assert Population.load(run / "population.json")["player/itself"].source == str(
        (run / "checkpoints" / "4").absolute()
    )
    code, said = command("population", "show", "run", "player/itself")
    assert code == 0, said
    assert "verified" in said
