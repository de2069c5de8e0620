"""Listeners: the questions they are asked, what they learn, and what is summed up of their answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cluster.errors import RunError
from cluster.imitation.listener import learn_listener, open_listener, read_games
from opponents.listening.listener import HeardGame, hearing, listen
from opponents.listening.questions_asked import AskedGame, listener_turns
from opponents.play import play_game
from opponents.players.llm_policy import TokenizedLanguage
from services.environments.diplomacy.game_origin import GameOrigin
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.text.listener_language import Heard, ListenerLanguage
from services.environments.diplomacy.world import Diplomacy
from services.environments.seat_player import SeatPlayer
from services.inference.word_tokenizer import make_word_tokenizer

TALKERS = ("honest", "keeper", "breaker", "stabber", "honest", "breaker", "honest")
WORLD = Diplomacy(GameSettings(until_year=1902, press_rounds=2))
LANGUAGE = ListenerLanguage()
TOKENIZER = make_word_tokenizer(LANGUAGE.words(), LANGUAGE.word_pattern, LANGUAGE.joins)


def silent_stage(name: str, steps: int):
    return lambda done: None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three saved games that say who played."""
    found = tmp_path_factory.mktemp("games")
    for seed in range(3):
        game = WORLD.new_game("", "FRANCE", seed)
        names = dict(zip(POWERS, TALKERS, strict=True))
        asyncio.run(play_game(game, {power: WORLD.make_bot(name) for power, name in names.items()}, seed))
        seated = {power: SeatPlayer(name, "bot") for power, name in names.items()}
        game.origin = GameOrigin(seated, seed, 1902, "unknown", "0", None)
        game.save(found / f"{seed}.json")
    return found


@pytest.fixture(scope="module")
def games(folder: Path) -> list[AskedGame]:
    return read_games(sorted(folder.glob("*.json")), silent_stage, most=12)


def test_questions_are_about_the_partners_that_are_asked_for(folder: Path, games: list[AskedGame]) -> None:
    files = sorted(folder.glob("*.json"))
    for game in read_games(files, silent_stage, partners=["breaker"], most=5):
        assert {game.seated[each.partner] for each in (*game.judged, *game.expected)} == {"breaker"}
        assert len(game.judged) == len(game.expected) == 5
    again = read_games(files, silent_stage, most=12)
    assert [[each.partner for each in game.judged] for game in games] == [
        [each.partner for each in game.judged] for game in again
    ]


def test_prompts_end_with_the_question_and_have_the_press_only_where_it_is_heard(games: list[AskedGame]) -> None:
    tokens = TokenizedLanguage(LANGUAGE, TOKENIZER)
    records = set()
    for each in games[0].judged:
        heard = Heard(each.view, each.partner, "JUDGE")
        text = LANGUAGE.prompt(heard, each.reader)
        account = each.view.press.accounts.get(each.partner)
        kept, broken = (account.kept, account.broken) if account else (0, 0)
        record = (f" KEPT {kept}" if kept else "") + (f" BROKE {broken}" if broken else "")
        records.add(record)
        assert text.endswith(f"; JUDGE {each.partner}{record}")
        assert "HOLDS" in text
        assert TOKENIZER.unk_token_id not in tokens.prompt(heard, each.reader)
        plain = LANGUAGE.prompt(replace(heard, asked="EXPECT", hears=False), each.reader)
        assert plain.endswith(f"; EXPECT {each.partner}")
        assert not {"HOLDS", "FROM", "OWES", "KEPT"} & set(plain.split())
        slots = LANGUAGE.slots(replace(heard, asked="EXPECT"), each.reader)
        assert len(slots) == len(each.view.units[each.partner])
    assert len(records) > 2


def test_half_of_the_expected_orders_are_learned_without_the_press(games: list[AskedGame]) -> None:
    tokens = TokenizedLanguage(LANGUAGE, TOKENIZER)
    heard = unheard = 0
    for game in games:
        turns = list(listener_turns(tokens, game, 0))
        assert len(turns) == len(game.judged) + len(game.expected)
        assert all(turn.trained_mask.sum() == 1 for turn in turns[: len(game.judged)])
        for each, turn in zip(game.expected, turns[len(game.judged) :], strict=True):
            with_press, without = (
                tokens.prompt(Heard(each.view, each.partner, "EXPECT", hears), each.reader) for hears in (True, False)
            )
            assert with_press != without
            assert tuple(turn.prompt_ids) in (with_press, without)
            heard += tuple(turn.prompt_ids) == with_press
            unheard += tuple(turn.prompt_ids) == without
    assert min(heard, unheard) > 5


def test_a_listener_is_learned_written_and_opened(tmp_path: Path, games: list[AskedGame]) -> None:
    made = learn_listener(games, tmp_path / "listener", silent_stage, epochs=1)
    assert (made.games, made.turns) == (3, 48)
    policy, learned = open_listener(tmp_path / "listener")
    assert learned == {game.name for game in games}
    heard = asyncio.run(listen(policy, games[0]))
    assert len(heard.broken) == len(games[0].judged)
    assert all(0 < each < 1 for each in heard.broken)
    assert all(each > 0 for each in (*heard.with_press, *heard.without_press))
    assert heard.with_press != heard.without_press
    with pytest.raises(RunError, match=r"no listener .*: name a folder that `entente listen learn` wrote"):
        open_listener(tmp_path)
    with pytest.raises(RunError, match=r"is there already; choose another folder"):
        learn_listener(games, tmp_path / "listener", silent_stage, epochs=1)
    with pytest.raises(RunError, match=r"1 games have 0 questions to learn from"):
        learn_listener(games[:1], tmp_path / "other", silent_stage)


def test_what_is_summed_up_follows_from_the_answers(games: list[AskedGame]) -> None:
    knowing = [
        HeardGame(
            game,
            tuple(float(not each.kept) for each in game.judged),
            tuple(np.full(len(game.expected), 3.0)),
            tuple(np.full(len(game.expected), 5.0)),
        )
        for game in games
    ]
    whole = hearing(knowing)
    assert whole.area is not None
    assert whole.area.mean == 1
    assert (whole.bits.mean, whole.gained.mean) == (3, 2)  # type: ignore[union-attr]
    judged = [each for game in games for each in game.judged]
    assert whole.promises == len(judged)
    assert whole.broken == sum(not each.kept for each in judged) / len(judged)
    parts = [hearing(knowing, name) for name in set(TALKERS)]
    assert sum(part.promises for part in parts) == whole.promises
    assert sum(part.sheets for part in parts) == whole.sheets
    guessing = [replace(each, broken=tuple(0.5 for _ in each.broken)) for each in knowing]
    assert hearing(guessing).area.mean == 0.5  # type: ignore[union-attr]
    assert hearing([], "nobody").area is None
