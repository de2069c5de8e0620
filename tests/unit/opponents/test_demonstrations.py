"""Demonstrations: the orders of bots and people, as turns under the policy's mask."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from grpo_core.batching.microbatches import training_turn
from opponents.demonstrations import demonstrate_game, demonstration_turn, saved_demonstrations
from opponents.players.llm_policy import TokenizedLanguage
from services.environments.diplomacy import saved_decisions
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.game_origin import GameOrigin
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.orders import WORD_PATTERN, sheet
from services.environments.diplomacy.saved_game import SavedGameError
from services.environments.diplomacy.settings import DiplomacyImitation, GameSettings
from services.environments.diplomacy.text.notation import words
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import Bot
from services.environments.seat_player import SeatPlayer
from services.inference.sequence import teacher_forced_generation
from services.inference.token_masks import ConstraintError, SheetConstraint, SlotConstraint
from services.inference.word_tokenizer import make_word_tokenizer
from services.settings import InferenceSettings

WORLD = Diplomacy(GameSettings(until_year=1902))
TOKENIZER = make_word_tokenizer(words(), WORD_PATTERN)
TOKENS = TokenizedLanguage(WORLD.language, TOKENIZER)


def game_of(name: str, until_year: int, seed: int) -> tuple[DiplomacyGame, list[tuple[Position, str, tuple[str, ...]]]]:
    """A game between seven copies of a bot, and all its orders."""
    game, bot = DiplomacyGame(until_year), make_bot(name)
    ordered = []
    while not game.is_done:
        position = game.position
        for power in position.to_move:
            orders = bot.actions(position, power, seed)
            game.set_orders(power, orders)
            ordered.append((position, power, orders))
        game.process()
    return game, ordered


@pytest.mark.parametrize("name", ["dumbbot", "random"])
def test_a_turns_tokens_spell_the_orders_it_was_made_of(name: str) -> None:
    _, ordered = game_of(name, 1906, seed=3)
    kinds = set()
    for position, power, orders in ordered:
        turn = demonstration_turn(TOKENS, position, power, orders)
        kinds.add(position.kind)
        written = TOKENS.actions(sheet(position, power), turn.completion_ids.tolist())
        assert sorted(written) == sorted(orders)
        assert tuple(turn.prompt_ids.tolist()) == TOKENS.prompt(position, power)
        if turn.trained_mask.any():
            training_turn(turn, 0, 0, 0)  # refuses a chosen token that was not admissible
    assert kinds == {"M", "R", "A"}


def test_builds_in_any_order_give_the_same_turn() -> None:
    built = 0
    ordered = [each for seed in range(4) for each in game_of("dumbbot", 1905, seed)[1]]
    for position, power, orders in ordered:
        if position.kind == "A" and len(orders) > 1:
            built += 1
            one, other = (demonstration_turn(TOKENS, position, power, given) for given in (orders, orders[::-1]))
            np.testing.assert_array_equal(one.completion_ids, other.completion_ids)
    assert built > 2


def test_units_without_an_order_hold() -> None:
    position = DiplomacyGame(1901).position
    turn = demonstration_turn(TOKENS, position, "FRANCE", ("A PAR - BUR",))
    orders = TOKENS.actions(sheet(position, "FRANCE"), turn.completion_ids.tolist())
    assert sorted(orders) == ["A MAR H", "A PAR - BUR", "F BRE H"]


def test_a_sheet_that_leaves_its_mask_is_refused() -> None:
    constraint = SheetConstraint((SlotConstraint(((3, 9), (4, 9)), (None, None)),), end_id=1)
    assert teacher_forced_generation(constraint, [4, 9, 1]).sampled_mask.tolist() == [True, False, False]
    for wrong in ([5, 9, 1], [4, 8, 1], [4, 9], [], [4, 9, 1, 1]):
        with pytest.raises(ConstraintError):
            teacher_forced_generation(constraint, wrong)


def test_a_demonstrated_game_is_reproducible_and_has_turns_of_all_seats() -> None:
    turns = asyncio.run(demonstrate_game(WORLD, DiplomacyImitation(), TOKENS, 0, seed=5))
    again = asyncio.run(demonstrate_game(WORLD, DiplomacyImitation(), TOKENS, 0, seed=5))
    assert len(turns) > 7 * 3
    assert all(turn.trained_mask.any() and not turn.logprobs.any() for turn in turns)
    for one, other in zip(turns, again, strict=True):
        np.testing.assert_array_equal(one.completion_ids, other.completion_ids)


def test_a_saved_game_gives_the_same_turns_as_the_game_did(tmp_path: Path) -> None:
    game, ordered = game_of("dumbbot", 1903, seed=2)
    game.save(tmp_path / "game.json")
    wanted = [demonstration_turn(TOKENS, *each) for each in ordered]
    wanted = [turn for turn in wanted if turn.trained_mask.any()]
    found = list(saved_demonstrations(WORLD, DiplomacyImitation(), tmp_path / "game.json", TOKENS))

    def key(turn: object) -> tuple[bytes, bytes]:
        return turn.prompt_ids.tobytes(), turn.completion_ids.tobytes()  # type: ignore[attr-defined]

    assert list(map(key, found)) == list(map(key, wanted))


def test_powers_without_legal_orders_give_no_turns(tmp_path: Path) -> None:
    game, _ = game_of("dumbbot", 1901, seed=2)
    game.save(tmp_path / "game.json")
    saved = json.loads((tmp_path / "game.json").read_text())
    saved["phases"] = saved["phases"][:1]
    orders = saved["phases"][0]["orders"]
    orders["ITALY"], orders["RUSSIA"], orders["TURKEY"] = None, [], ["A CON-BUL", "A SMY holds"]
    (tmp_path / "game.json").write_text(json.dumps(saved))
    found = [
        turn.prompt_ids.tobytes()
        for turn in saved_demonstrations(WORLD, DiplomacyImitation(), tmp_path / "game.json", TOKENS)
    ]
    position = DiplomacyGame(1901).position
    ids = [np.asarray(TOKENS.prompt(position, power), np.int32) for power in POWERS[:4]]
    assert found == [each.tobytes() for each in ids]


def test_a_file_that_is_not_a_saved_game_is_refused(tmp_path: Path) -> None:
    (tmp_path / "game.json").write_text('{"phases": 3}')
    with pytest.raises(SavedGameError, match=r"game\.json"):
        list(saved_demonstrations(WORLD, DiplomacyImitation(), tmp_path / "game.json", TOKENS))


def test_a_teacher_among_others_is_imitated_alone() -> None:
    alone = DiplomacyImitation(teacher="greedy", against=("hold", "random"), until_year=1902)
    world = WORLD.as_imitated(alone)
    for number, country in enumerate(POWERS[:3]):
        turns = asyncio.run(demonstrate_game(world, alone, TOKENS, number, seed=5))
        texts = {TOKENS.text(turn.prompt_ids.tolist()[:1]) for turn in turns}
        assert texts == {country}
    assert set(world.make_others(alone, "FRANCE", 1)) == set(POWERS) - {"FRANCE"}


def test_a_teacher_that_looks_ahead_knows_who_else_plays() -> None:
    settings = DiplomacyImitation(teacher="lookahead", against=("hold",))
    teacher = WORLD.make_teacher(settings, WORLD.new_game("", "FRANCE", 0))
    assert [type(each).__name__ for each in teacher.others] == ["HoldBot"]


def test_a_saved_game_can_be_labelled_by_another_bot(tmp_path: Path) -> None:
    game, ordered = game_of("random", 1902, seed=2)
    game.save(tmp_path / "game.json")
    settings = DiplomacyImitation(relabel="hold")
    found = list(saved_demonstrations(WORLD, settings, tmp_path / "game.json", TOKENS))
    hold = WORLD.make_bot("hold")
    wanted = [demonstration_turn(TOKENS, view, seat, hold.actions(view, seat, 0)) for view, seat, _ in ordered]
    wanted = [turn for turn in wanted if turn.trained_mask.any()]
    assert [turn.completion_ids.tolist() for turn in found] == [turn.completion_ids.tolist() for turn in wanted]
    again = list(saved_demonstrations(WORLD, settings, tmp_path / "game.json", TOKENS))
    assert [turn.completion_ids.tolist() for turn in again] == [turn.completion_ids.tolist() for turn in found]


def test_saved_decisions_can_be_improved_by_looking_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_decisions, "LABEL_ROUNDS", ((4, 1), (2, 1)))
    game, ordered = game_of("hold", 1901, seed=2)
    game.save(tmp_path / "game.json")

    def written(margin: float) -> list[list[int]]:
        settings = DiplomacyImitation(relabel="lookahead", relabel_margin=margin, against=("greedy",))
        WORLD.check_imitation(settings)
        turns = saved_demonstrations(WORLD, settings, tmp_path / "game.json", TOKENS)
        return [turn.completion_ids.tolist() for turn in turns]

    played = [demonstration_turn(TOKENS, *each) for each in ordered]
    kept = [turn.completion_ids.tolist() for turn in played if turn.trained_mask.any()]
    assert written(34.0) == kept
    improved = written(0.4)
    assert len(improved) == len(kept)
    assert improved != kept
    with pytest.raises(ValueError, match=r"imitation\.relabel_margin.*lookahead"):
        WORLD.check_imitation(DiplomacyImitation(relabel="greedy", relabel_margin=0.3))


def test_improved_decisions_expect_the_bots_that_a_game_seats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = dict.fromkeys(POWERS, "dumbbot") | {
        "FRANCE": "mine/checkpoints/3",
        "ITALY": "greedy",
        "TURKEY": "lookahead",
    }
    game, _ = game_of("hold", 1901, seed=2)
    seated = {power: SeatPlayer(name, "bot") for power, name in names.items()}
    game.origin = GameOrigin(seated, 1, 1901, "unknown", "0")
    game.save(tmp_path / "game.json")
    made: list[Mapping[str, Sequence[Bot]]] = []

    class Spy(saved_decisions.LookaheadBot):
        def __init__(self, others: Mapping[str, Sequence[Bot]], rounds: Sequence[tuple[int, int]]) -> None:
            made.append(others)
            super().__init__(others, rounds)

    monkeypatch.setattr(saved_decisions, "LookaheadBot", Spy)
    monkeypatch.setattr(saved_decisions, "LABEL_ROUNDS", ((4, 1), (2, 1)))
    settings = DiplomacyImitation(
        relabel="lookahead", relabel_margin=0.4, against=("hold",), saved_players=("mine/checkpoints/3",)
    )
    assert list(saved_demonstrations(WORLD, settings, tmp_path / "game.json", TOKENS))
    expected = {power: [type(bot).__name__ for bot in bots] for power, bots in made[0].items()}
    others = {"ITALY": ["GreedyBot"], "TURKEY": ["HoldBot"], "FRANCE": ["HoldBot"]}
    assert expected == {power: others.get(power, ["DumbBot"]) for power in POWERS}


def test_a_demonstration_that_coordinated_decoding_excludes_keeps_the_legal_mask() -> None:
    tokens = TokenizedLanguage(WORLD.language, TOKENIZER, inference=InferenceSettings(decoding="coordinated"))
    position = DiplomacyGame(1901).position
    for orders in (("A MAR - BUR", "A PAR - BUR", "F BRE H"), ("A MAR - BUR", "A PAR - PIC", "F BRE H")):
        turn, plain = (demonstration_turn(each, position, "FRANCE", orders) for each in (tokens, TOKENS))
        np.testing.assert_array_equal(turn.completion_ids, plain.completion_ids)
        same = np.array_equal(turn.admissible_ids, plain.admissible_ids)
        assert same == (orders[1] == "A PAR - BUR")
