"""Games by text are those of ``opponents.play``: the same answers, the same game and rewards."""

import asyncio
import subprocess
import sys

import pytest

from cluster.adapters.text_game import TextGame, draw_role, open_world
from grpo_core.seeds import derive_seed
from opponents.play import play_game
from services.environments.playing import Decision, weigh

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


SCRIPTS = ("dumbbot", "greedy", "hold", "random")
REWARD = {"center_change": 1.0, "sum_of_squares": 0.5, "survival": 0.25, "format": 0.125}


class Reader:
    """Reads for each seat and decision the text that it wrote there; it is written where the seat has no choice."""

    def __init__(self, world, bots, written):
        self._world, self._bots, self._written = world, bots, written

    async def act(self, view, seat, seed):
        text = self._written.get((seat, seed))
        text = texts(self._world, self._bots[seat], view, seat, seed) if text is None else text
        answer = self._world.language.parse(text, view, seat)
        return Decision(answer.actions, defects=answer.defects)


@pytest.mark.parametrize(
    ("name", "settings", "scripts", "malformed"),
    [
        ("diplomacy", {"until_year": 1903, "reward": REWARD}, SCRIPTS, 0),
        ("diplomacy", {"until_year": 1902, "reward": REWARD}, SCRIPTS, 3),
        ("diplomacy", {"until_year": 1901, "press_rounds": 1, "reward": REWARD}, ("honest", "stabber", "chatter"), 3),
        ("kuhn", {}, ("random",), 0),
    ],
)
def test_each_seat_is_paid_what_play_game_pays_it(name, settings, scripts, malformed):
    world = open_world(name, settings)
    bots = {seat: world.make_bot(scripts[at % len(scripts)]) for at, seat in enumerate(world.roles)}
    game, written = TextGame(world, world.roles[0], 5, seats=world.roles), {}
    paid, before = dict.fromkeys(world.roles, 0.0), dict(game.rewards)
    while game.waiting:
        here = ("decision", game._phases) if game.game.takes_time else ("talk", game._phases, game._talks)
        for at, seat in enumerate(game.waiting):
            seed, view = derive_seed(5, *here, seat), game.game.view(seat)
            wrong = "A XYZ - QQQ\n" * at if at < malformed else ""
            written[seat, seed] = texts(world, bots[seat], view, seat, seed) + "\n" + wrong
            game.answer(seat, written[seat, seed])
            for each, total in game.rewards.items():
                paid[each] += total - before[each]
            before = dict(game.rewards)
    same = world.new_game(world.starts().draw(world.roles[0], 5), world.roles[0], 5)
    players = dict.fromkeys(world.roles, Reader(world, bots, written))
    record = asyncio.run(play_game(same, players, 5, learners=world.roles, reward_weights=world.reward_weights))
    assert paid == pytest.approx(
        {seat: weigh(each.parts, world.reward_weights) for seat, each in record.learners.items()}
    )
    assert len(set(paid.values())) > 1, "seats that all earn the same would hide a reward that went to another seat"
    assert any(each.parts.get("format") for each in record.learners.values()) == bool(malformed)


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


def test_the_role_is_a_seat_that_is_played():
    world = open_world("kuhn", {})
    assert {draw_role(world, seed) for seed in range(20)} == set(world.roles)
    assert {draw_role(world, seed, ["SECOND", "THIRD", "SECOND"]) for seed in range(20)} == {"SECOND", "THIRD"}
    with pytest.raises(ValueError, match="role: FIRST is not among the seats SECOND"):
        TextGame(world, "FIRST", 0, seats=["SECOND"])


def test_a_seat_that_is_named_twice_is_paid_once():
    world = open_world("kuhn", {})
    games = [TextGame(world, "FIRST", 4, seats=seats, others="random") for seats in (["FIRST"], ["FIRST", "FIRST"])]
    for game in games:
        while game.waiting:
            game.answer("FIRST", game.game.view("FIRST").choices[0])
    assert games[0].rewards == games[1].rewards
    assert games[0].rewards["FIRST"] != 0


def test_a_world_with_one_seat_refuses_others():
    world = open_world("word_problems", {})
    role, other = world.roles[:2]
    for refused in ({"seats": [role, other]}, {"others": "random"}):
        with pytest.raises(ValueError, match="one variant a game"):
            TextGame(world, role, 0, **refused)
    assert TextGame(world, role, 0, seats=[role]).waiting == (role,)


def test_without_openenv_the_server_names_the_extra():
    program = (
        "import runpy, sys; sys.modules['openenv'] = None; "
        "runpy.run_module('cluster.adapters.openenv.server', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "pip install 'entente[openenv]'" in line
