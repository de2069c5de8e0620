"""Votes on draws: what players see and write, how bots vote, and how a game ends."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.actors.initial_policy import make_policy
from cluster.evaluation.players.opening import agreeing_world, open_policy
from grpo_core.settings import PolicySettings
from opponents.play import play_game
from opponents.players.chat_players import ChatPlayers
from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS, DrawVote
from services.environments.diplomacy.rules.draw_votes import DRAW, PLAY_ON, accepts_draw, split_votes
from services.environments.diplomacy.settings import DiplomacyEvaluation, DiplomacyImitation, GameSettings
from services.environments.diplomacy.text.language import DiplomacyLanguage
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import Policy
from services.inference.torch_backend.engine import TorchEngine

VOTING = DiplomacyLanguage(draw_votes=True)

WORLD = agreeing_world(draw_votes=True, press=False)
assert WORLD is not None


def test_rows_of_evaluations_say_that_players_could_agree_on_a_draw() -> None:
    assert Diplomacy(GameSettings(draw_votes=True)).evaluation_facts(DiplomacyEvaluation())["draw_votes"] == "yes"
    assert "draw_votes" not in Diplomacy(GameSettings()).evaluation_facts(DiplomacyEvaluation())


def new_game(until_year: int = 1910) -> DiplomacyGame:
    game = DiplomacyGame(until_year)
    game.draw_votes = True
    return game


def step(game: DiplomacyGame, *wanting: str) -> None:
    """Everybody holds; some vote for a draw."""
    game.step({power: (DRAW,) if power in wanting else () for power in game.to_act()})


def test_a_game_is_a_draw_when_all_vote_for_it_in_the_same_phase(tmp_path: Path) -> None:
    game = new_game()
    assert game.position.draw_vote == DrawVote((), 0)
    step(game, *POWERS[:-1])
    assert not game.is_done
    assert game.position.draw_vote == DrawVote(POWERS[:-1], 0)
    step(game, POWERS[-1])  # votes do not last
    assert game.position.draw_vote == DrawVote((POWERS[-1],), 1)
    before = game.position.units
    step(game, *POWERS)
    assert game.is_done
    assert game.agreed
    outcome = game.outcome()
    assert (outcome.kind, outcome.winners, outcome.final_year, outcome.phases) == ("draw", POWERS, 1902, 3)
    assert game.position.units == before
    assert game.result().outcomes["FRANCE"]["draw"] == 1
    game.save(tmp_path / "game.json")
    loaded = DiplomacyGame.load(tmp_path / "game.json", 1910)
    assert loaded.outcome() == outcome


def test_orders_beside_votes_are_not_defects_and_without_votes_they_are() -> None:
    game = new_game()
    assert [each.reason for each in game.set_orders("FRANCE", ("A PAR - BUR", DRAW))] == ["missing", "missing"]
    assert game.orders["FRANCE"] == ("A PAR - BUR",)
    plain = DiplomacyGame(1910)
    assert plain.position.draw_vote is None
    assert "unreadable" in [each.reason for each in plain.set_orders("FRANCE", ("A PAR - BUR", DRAW))]


def test_a_vote_that_is_written_again_is_replaced() -> None:
    game = new_game()
    for power in POWERS:
        game.set_orders(power, (DRAW,))
    game.set_orders("FRANCE", (PLAY_ON,))
    game.process()
    assert not game.is_done
    assert game.position.draw_vote is not None
    assert game.position.draw_vote.wanted == tuple(power for power in POWERS if power != "FRANCE")


def test_only_movement_phases_take_votes_and_only_powers_with_units_have_one() -> None:
    state = DiplomacyGame(1910).state()
    for power in POWERS[2:]:
        state["units"][power] = []
    game = DiplomacyGame.from_state(state, 1910)
    game.draw_votes = True
    game.set_orders("TURKEY", (DRAW,))  # has no unit, and its vote does not count
    step(game, *POWERS[:2])
    assert game.outcome().winners == POWERS  # survivors have a centre
    state["name"] = "W1901A"
    winter = DiplomacyGame.from_state(state, 1910)
    winter.draw_votes = True
    assert winter.position.draw_vote is None


@pytest.mark.parametrize(
    ("lines", "orders", "wanted"),
    [
        (["A PAR H", "draw."], ["A PAR H"], True),
        (["Play on", "A PAR H"], ["A PAR H"], False),
        (["DRAW", "PLAY-ON"], [], True),
        (["A PAR - DRAW"], ["A PAR - DRAW"], False),
    ],
)
def test_votes_are_told_from_orders(lines: list[str], orders: list[str], wanted: bool) -> None:
    assert split_votes(lines) == (orders, wanted)


def test_a_sheet_ends_with_a_ballot_and_is_read_as_it_was_written() -> None:
    position = new_game().position
    slots = VOTING.slots(position, "FRANCE")
    assert slots[:-1] == DiplomacyLanguage().slots(position, "FRANCE")
    assert slots[-1].alternatives == (PLAY_ON, DRAW)
    assert len(VOTING.notes(position, "FRANCE")) == len(slots) == len(VOTING.coordinated(slots))
    orders = tuple(slot.alternatives[0] for slot in slots[:-1])
    assert VOTING.written(orders, position, "FRANCE") == (*orders, PLAY_ON)
    assert VOTING.written((DRAW, *orders), position, "FRANCE") == (*orders, DRAW)
    answer = VOTING.parse("\n".join((*orders, "Draw")), position, "FRANCE")
    assert (answer.actions, answer.defects) == ((*orders, DRAW), ())
    assert DiplomacyLanguage().slots(position, "FRANCE") == slots[:-1]
    assert VOTING.slots(DiplomacyGame(1901).position, "FRANCE") == slots[:-1]
    assert set(VOTING.words()) - set(DiplomacyLanguage().words()) == {DRAW, PLAY_ON}


def test_prompts_say_who_voted_for_a_draw_and_how_to() -> None:
    game = new_game()
    step(game, "FRANCE", "TURKEY")
    position = game.position
    assert "FALL-MOVES 1901; DRAW FRANCE TURKEY; " in VOTING.prompt(position, "ITALY")
    assert "DRAW" not in DiplomacyLanguage().prompt(position, "ITALY")
    assert set(VOTING.prompt(position, "ITALY").replace(";", " ").split()) & set(VOTING.optional_words()) == {DRAW}
    told = {each.name: each.text for each in VOTING.sections(position, "FRANCE")}
    assert told["draw"].endswith("Last time you, TURKEY voted for it.")
    assert "draw" not in {each.name for each in DiplomacyLanguage().sections(position, "FRANCE")}


def test_bots_agree_after_two_quiet_years_and_a_leader_after_four() -> None:
    game = new_game()
    even = dict.fromkeys(POWERS, ("PAR",))
    ahead = {**even, "FRANCE": ("PAR", "BRE")}
    for quiet, centers, agreeing in [
        (1, even, ()),
        (2, even, POWERS),
        (3, ahead, tuple(power for power in POWERS if power != "FRANCE")),
        (4, ahead, POWERS),
    ]:
        position = replace(game.position, centers=centers, draw_vote=DrawVote((), quiet))
        assert tuple(power for power in POWERS if accepts_draw(position, power)) == agreeing
        greedy = WORLD.make_bot("greedy")
        assert tuple(power for power in POWERS if DRAW in greedy.actions(position, power, 0)) == agreeing
    assert not accepts_draw(DiplomacyGame(1901).position, "FRANCE")
    assert WORLD.make_bot("lookahead").is_slow


def test_bots_end_a_game_in_which_nothing_happens() -> None:
    world = Diplomacy(GameSettings(draw_votes=True, until_year=1910))
    seats: dict[str, Policy] = {power: world.make_bot("hold") for power in POWERS}
    results = []
    for kind in (world, world.as_evaluated(DiplomacyEvaluation(until_year=1910)), world.as_rated()):
        game = kind.new_game("", "FRANCE", 0)
        asyncio.run(play_game(game, seats, 0))
        results.append((game.outcome().kind, game.outcome().final_year))
    # 1901 to 1904 were quiet: Russia, which alone has four centres, waits so long.
    assert results == [("draw", 1905)] * 3
    measured = world.as_measured(DiplomacyEvaluation(until_year=1910)).new_game("", "FRANCE", 0)
    asyncio.run(play_game(measured, seats, 0))
    assert measured.result().outcomes["FRANCE"]["draw"] == 1
    assert world.as_imitated(DiplomacyImitation(until_year=1910)).settings.draw_votes


def test_a_policy_votes_under_the_mask_and_one_without_the_words_plays_on() -> None:
    settings = PolicySettings(hidden_size=32, layers=1, head_dim=32, intermediate_size=32)
    position = new_game().position
    model, tokenizer = make_policy(settings, 0, VOTING)
    voter = LLMPolicy(TorchEngine(model), TokenizedLanguage(VOTING, tokenizer), temperature=1.0)
    votes = set()
    for seed in itertools.count():
        decision = asyncio.run(voter.act(position, "FRANCE", seed))
        assert decision.turn is not None
        assert len(decision.actions) == 4
        votes.add(decision.actions[-1])
        if votes == {DRAW, PLAY_ON}:
            break
        assert seed < 40, "an untrained policy tosses a coin"
    model, tokenizer = make_policy(settings, 0, DiplomacyLanguage())
    silent = TokenizedLanguage(VOTING, tokenizer)
    slots = silent.slots(position, "FRANCE")
    assert slots is not None
    assert len(slots) == 3
    champion = open_policy("champion", ChatPlayers({}), world=WORLD)
    game = new_game(1901)
    record = asyncio.run(play_game(game, dict.fromkeys(POWERS, champion), 0))
    assert record.defects == 0
