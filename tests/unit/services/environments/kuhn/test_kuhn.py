"""Kuhn poker for three, every deal and every way to play it, and that the world is small enough to copy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

import services.environments.kuhn
from grpo_core.seeds import derive_seed
from opponents.players.llm_policy import TokenizedLanguage
from services.environments.kuhn.game import CARDS, SEATS, KuhnGame
from services.environments.kuhn.world import WORLD, Kuhn
from services.environments.settings import NoSettings
from services.inference.token_masks import SheetState
from services.inference.word_tokenizer import make_word_tokenizer

DEALS = ["".join(cards) for cards in permutations(CARDS, len(SEATS))]
LANGUAGE = Kuhn.language
# All ways to play a hand, written down from the rules and not from the code.
ANSWERS = ("call", "fold")
ENDS = {("check", "check", "check")} | {
    (*("check",) * checks, "bet", one, other) for checks in range(3) for one in ANSWERS for other in ANSWERS
}


def world() -> Kuhn:
    return Kuhn(NoSettings())


def played(deal: str, history: tuple[str, ...]) -> KuhnGame:
    game = world().new_game(deal, "FIRST", 0)
    for action in history:
        step = game.step({game.to_act()[0]: (action,)})
        assert (step.parts, step.defects) == ({}, 0)
    return game


def histories(deal: str = "JQK") -> Iterator[tuple[tuple[str, ...], bool]]:
    """Every reachable history, with whether the game is over there."""
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        history = waiting.pop()
        game = played(deal, history)
        yield history, game.is_done
        if not game.is_done:
            waiting += [(*history, choice) for choice in game.view(game.to_act()[0]).choices]


def chips_by_the_rules(deal: str, history: tuple[str, ...]) -> dict[str, float]:
    """What each seat wins, by a second reading of the rules: seat by seat, one bet at a time."""
    stakes = dict.fromkeys(SEATS, 1)
    folded = set()
    for number, action in enumerate(history):
        seat = SEATS[number % 3]
        if action in ("bet", "call"):
            stakes[seat] += 1
        elif action == "fold":
            folded.add(seat)
    cards = {seat: card for seat, card in zip(SEATS, deal, strict=True) if seat not in folded}
    highest = next(card for card in "AKQJ" if card in cards.values())
    winner = next(seat for seat, card in cards.items() if card == highest)
    return {seat: float(sum(stakes.values()) * (seat == winner) - stakes[seat]) for seat in SEATS}


def test_hands_are_played_by_the_rules_of_three() -> None:
    reached = list(histories())
    ends = {history for history, is_done in reached if is_done}
    assert ends == ENDS
    assert len(ends) == 13
    assert len(reached) - len(ends) == 12  # decisions in the tree of one deal
    for history, is_done in reached:
        if not is_done:
            assert played("JQK", history).to_act() == (SEATS[len(history) % 3],)
            choices = played("JQK", history).view("FIRST").choices
            assert choices == (("fold", "call") if "bet" in history else ("check", "bet"))


def test_in_every_hand_the_highest_card_that_did_not_fold_takes_the_pot() -> None:
    assert len(DEALS) == 24
    for deal in DEALS:
        for history in ENDS:
            result = played(deal, history).result()
            won = {seat: result.outcomes[seat]["chips"] for seat in SEATS}
            assert won == chips_by_the_rules(deal, history)
            assert sum(won.values()) == 0
            assert {seat: parts["chips"] for seat, parts in result.parts.items()} == won
            assert sum(outcome["won"] for outcome in result.outcomes.values()) == 1
            for measure in Kuhn.measures:
                values = [outcome[measure.outcome] for outcome in result.outcomes.values()]
                assert measure.low <= min(values) <= max(values) <= measure.high


def test_standings_rank_seats_by_chips_with_shares_of_one_whole() -> None:
    for deal in DEALS:
        for history in ENDS:
            result = played(deal, history).result()
            assert result.standing is not None
            shares, places = result.standing.shares, result.standing.places
            assert sum(shares.values()) == pytest.approx(1)
            assert all(0 <= share <= 1 for share in shares.values())
            assert sorted(seat for place in places for seat in place) == sorted(SEATS)
            chips = [{result.outcomes[seat]["chips"] for seat in place} for place in places]
            assert all(len(same) == 1 for same in chips)
            assert [max(same) for same in chips] == sorted((max(same) for same in chips), reverse=True)


def test_a_seat_sees_nothing_that_depends_on_the_cards_of_others() -> None:
    for history, is_done in histories():
        for number, seat in enumerate(SEATS):
            for card in CARDS:
                games = [played(deal, history) for deal in DEALS if deal[number] == card]
                assert len(games) == 6
                assert len({(game.view(seat), repr(game.view(seat))) for game in games}) == 1
                assert len({tuple(game.start_facts(seat).items()) for game in games}) == 1
                if not is_done:
                    assert len({LANGUAGE.prompt(game.view(seat), seat) for game in games}) == 1
                    assert len({game.to_act() for game in games}) == 1


def test_facts_are_known_before_the_first_step_and_stay() -> None:
    for deal in DEALS:
        game = world().new_game(deal, "SECOND", 0)
        before = {seat: dict(game.start_facts(seat)) for seat in SEATS}
        assert before == {seat: {"card": card} for seat, card in zip(SEATS, deal, strict=True)}
        assert all(tuple(facts) == Kuhn.episode_facts for facts in before.values())
        game.step({"FIRST": ("bet",)})
        assert {seat: dict(game.start_facts(seat)) for seat in SEATS} == before
        assert not game.facts("SECOND")
    assert Kuhn.turn_facts == ()


@pytest.mark.parametrize("written", [(), ("",), ("call",), ("fold",), ("BET",), ("check", "bet"), ("bet ",), ("\x00",)])
def test_what_is_no_choice_is_a_defect_and_counts_as_passive(written: tuple[str, ...]) -> None:
    game = played("JQK", ())
    assert game.step({"FIRST": written}).defects == 1
    assert game.view("SECOND").history == ("check",)
    game = played("JQK", ("bet",))
    illegal = written not in (("call",), ("fold",))
    assert game.step({"SECOND": written}).defects == int(illegal)
    assert game.view("THIRD").history[1:] == (("fold",) if illegal else written)


def test_a_game_of_nothing_but_nonsense_ends() -> None:
    game, defects = played("AKQ", ()), 0
    while not game.is_done:
        defects += game.step({game.to_act()[0]: ("raise",)}).defects
    assert defects == 3
    assert game.result().outcomes["FIRST"]["chips"] == 2


def test_all_words_of_prompts_and_answers_are_listed() -> None:
    words = LANGUAGE.words()
    assert len(set(words)) == len(words)
    tokenizer = make_word_tokenizer(words, LANGUAGE.word_pattern, LANGUAGE.joins)
    for deal in ("JQK", "AKQ"):
        for history, is_done in histories(deal):
            for seat in SEATS if not is_done else ():
                view = played(deal, history).view(seat)
                prompt = LANGUAGE.prompt(view, seat)
                assert set(prompt.split()) <= set(words)
                assert tokenizer.decode(tokenizer.encode(prompt)) == prompt
                assert prompt in {section.text for section in LANGUAGE.sections(view, seat)}
    assert LANGUAGE.example in words


def test_a_mask_admits_exactly_the_two_choices() -> None:
    tokenizer = make_word_tokenizer(LANGUAGE.words(), LANGUAGE.word_pattern)
    tokens = TokenizedLanguage(LANGUAGE, tokenizer)
    for history, is_done in histories():
        if is_done:
            continue
        view, seat = played("JQK", history).view("THIRD"), "THIRD"
        slots = LANGUAGE.slots(view, seat)
        assert slots is not None
        assert [slot.alternatives for slot in slots] == [view.choices]
        state = SheetState(tokens.constraint(slots))
        assert state.forced() == []
        admitted = state.admissible().tolist()
        assert tokenizer.convert_ids_to_tokens(admitted) == sorted(view.choices, key=LANGUAGE.words().index)
        for choice, token in zip(view.choices, tokenizer.convert_tokens_to_ids(list(view.choices)), strict=True):
            state = SheetState(tokens.constraint(slots))
            completion = [*state.forced(), token]
            state.advance(token)
            completion += state.forced()
            assert state.finished
            assert tokens.actions(slots, completion) == (choice,)


@pytest.mark.parametrize(
    ("text", "actions", "defects"),
    [
        ("bet", ("bet",), []),
        (" Bet \n", ("bet",), []),
        ("call", (), ["illegal"]),
        ("", (), ["missing"]),
        ("check\nbet", ("check",), ["too_many"]),
    ],
)
def test_free_text_is_read_strictly(text: str, actions: tuple[str, ...], defects: list[str]) -> None:
    answer = LANGUAGE.parse(text, played("JQK", ()).view("FIRST"), "FIRST")
    assert answer.actions == actions
    assert [defect.reason for defect in answer.defects] == defects


def test_starts_follow_the_seed_alone_and_reach_every_deal() -> None:
    starts = world().starts()
    drawn = [starts.draw("FIRST", derive_seed("deal", number)) for number in range(1000)]
    assert set(drawn) == set(DEALS)
    assert drawn == [world().starts().draw("THIRD", derive_seed("deal", number)) for number in range(1000)]


def test_the_random_bot_takes_both_choices_and_repeats_itself() -> None:
    bot, view = world().make_bot("random"), played("JQK", ()).view("FIRST")
    taken = [bot.actions(view, "FIRST", seed) for seed in range(100)]
    assert {choice for (choice,) in taken} == {"check", "bet"}
    assert taken == [bot.actions(view, "FIRST", seed) for seed in range(100)]
    with pytest.raises(ValueError, match="no bot is called 'shark'; there are random"):
        world().make_bot("shark")


def test_the_world_stays_small_enough_to_copy() -> None:
    files = sorted(Path(str(services.environments.kuhn.__file__)).parent.glob("*.py"))
    assert [file.name for file in files] == ["__init__.py", "game.py", "language.py", "world.py"]
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= 150
    assert WORLD is Kuhn
