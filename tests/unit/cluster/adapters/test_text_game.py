"""Games by text are those of ``opponents.play``: the same answers, the same game and rewards."""

import asyncio

import pytest

from cluster.adapters.text_game import TextGame, open_world
from grpo_core.seeds import derive_seed
from opponents.play import play_game
from services.environments.playing import weigh

GAMES = [
    ("diplomacy", {"until_year": 1901}, "greedy"),
    ("diplomacy", {"until_year": 1901, "draw_votes": True, "press_rounds": 1}, "random"),
    ("kuhn", {}, "random"),
]


def texts(world, bot, view, seat, seed):
    return "\n".join(world.language.written(bot.actions(view, seat, seed), view, seat))


@pytest.mark.parametrize(("name", "settings", "bot"), GAMES)
@pytest.mark.parametrize("all_seats", [False, True])
def test_a_game_by_text_is_the_same_game(name, settings, bot, all_seats):
    world = open_world(name, settings)
    role = world.roles[1]
    seats = world.roles if all_seats else (role,)
    game = TextGame(world, role, 7, seats=seats, others=bot)
    player, steps = world.make_bot(bot), 0
    while game.waiting:
        here = ("decision", game._phases) if game.game.takes_time else ("talk", game._phases, game._talks)
        for seat in game.waiting:
            view = game.game.view(seat)
            assert game.messages(seat)[0]["role"] == "system"
            assert game.answer(seat, texts(world, player, view, seat, derive_seed(7, *here, seat))) == []
        steps += 1
    same = world.new_game(world.starts().draw(role, 7), role, 7)
    players = dict.fromkeys(world.roles, world.make_bot(bot))
    record = asyncio.run(play_game(same, players, 7, learners=seats, reward_weights=world.reward_weights))
    assert game.is_done
    assert steps
    assert game.outcomes == {seat: dict(each) for seat, each in record.result.outcomes.items()}
    due = {seat: weigh(each.parts, world.reward_weights) for seat, each in record.learners.items()}
    assert game.rewards == pytest.approx(due)


def test_any_text_is_an_answer_and_what_is_wrong_with_it_is_said():
    game = TextGame(open_world("diplomacy", {"until_year": 1901}), "FRANCE", 0, others="random")
    assert game.answer("FRANCE", "I surrender.")
    while game.waiting:
        game.answer("FRANCE", "")
    assert game.outcomes["FRANCE"]["centers"] >= 0


def test_word_problems_have_one_seat():
    world = open_world("word_problems", {"follow_ups": 1})
    game = TextGame(world, world.roles[0], 3)
    first = game.messages(world.roles[0])
    game.answer(world.roles[0], "</think><response>4</response>")
    assert len(game.messages(world.roles[0])) == len(first) + 2
    game.answer(world.roles[0], "</think><response>4</response>")
    assert not game.waiting


def test_what_a_world_does_not_have_is_refused_by_name():
    world = open_world("kuhn", {})
    for refused in ({"role": "FOURTH"}, {"role": "FIRST", "seats": ["FOURTH"]}, {"role": "FIRST", "others": "shark"}):
        with pytest.raises(ValueError, match=r"FOURTH|shark"):
            TextGame(world, seed=0, **refused)
    game = TextGame(world, "SECOND", 0)
    with pytest.raises(ValueError, match="FIRST"):
        game.answer("FIRST", "bet")
