"""The text of a position and its words."""

import random
import re

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rules.orders import WORD_PATTERN, sheet
from services.environments.diplomacy.text.notation import join, render, split, words
from tests.unit.services.environments.diplomacy.sheets import format_sheet


def positions(seed, until_year):
    game, rng = DiplomacyGame(until_year), random.Random(seed)
    while not game.is_done:
        yield game.position
        for power in game.position.to_move:
            game.set_orders(power, [rng.choice(game.position.legal[place]) for place in game.position.orderable[power]])
        game.process()


def test_opening_renders_as_documented():
    assert render(DiplomacyGame(1901).position, "FRANCE") == (
        "FRANCE SPRING-MOVES 1901; A MAR, A PAR, F BRE (BRE MAR PAR); "
        "GERMANY A BER, A MUN, F KIE (BER KIE MUN); "
        "ITALY A ROM, A VEN, F NAP (NAP ROM VEN); "
        "RUSSIA A MOS, A WAR, F SEV, F STP/SC (MOS SEV STP WAR); "
        "TURKEY A CON, A SMY, F ANK (ANK CON SMY); "
        "AUSTRIA A BUD, A VIE, F TRI (BUD TRI VIE); "
        "ENGLAND A LVP, F EDI, F LON (EDI LON LVP); "
        "NEUTRAL (BEL BUL DEN GRE HOL NWY POR RUM SER SPA SWE TUN) ORDERS"
    )


def test_opening_has_67_words():
    text = render(DiplomacyGame(1901).position, "FRANCE")
    assert split(text)[:8] == ["FRANCE", "SPRING-MOVES", "1901", "A MAR", "A PAR", "F BRE", "BRE", "MAR"]
    assert len(split(text)) == 67


def test_adjustments_and_retreats_are_rendered():
    state = {"name": "W1902A", "units": {"ITALY": ["A ROM"]}, "centers": {"ITALY": ["ROM", "NAP"]}}
    assert render(DiplomacyGame.from_state(state, 1910).position, "ITALY").startswith(
        "ITALY WINTER-BUILDS 1902; BUILD 1; A ROM (NAP ROM); NEUTRAL ("
    )
    state["centers"] = {}
    assert render(DiplomacyGame.from_state(state, 1910).position, "ITALY").startswith(
        "ITALY WINTER-BUILDS 1902; DISBAND 1; A ROM; NEUTRAL ("
    )
    state = {
        "name": "F1902R",
        "units": {"GERMANY": ["A BUR"], "FRANCE": ["*A BUR"]},
        "retreats": {"FRANCE": {"A BUR": ["PAR", "GAS"]}},
        "centers": {"FRANCE": ["PAR"], "GERMANY": ["MUN"]},
    }
    assert render(DiplomacyGame.from_state(state, 1910).position, "GERMANY").startswith(
        "GERMANY FALL-RETREATS 1902; A BUR (MUN); FRANCE (PAR) DISLODGED A BUR GAS PAR; NEUTRAL ("
    )


def test_prompts_and_sheets_of_whole_games_use_known_words():
    known, longest, kinds = frozenset(words()), 0, set()
    for seed in (1, 2):
        for position in positions(seed, 1909):
            kinds.add(position.kind)
            for power in POWERS:
                prompt = split(render(position, power))
                assert known.issuperset(prompt)
                longest = max(longest, len(prompt))
                assert prompt[0] == power
                assert prompt[-1] == "ORDERS"
                for slot in sheet(position, power):
                    assert known.issuperset(split(format_sheet(slot.alternatives)))
    assert kinds == {"M", "R", "A"}
    assert longest <= 110


def test_an_order_is_split_into_words():
    assert split("A PAR - BUR\n") == ["A PAR", "-", "BUR", "\n"]
    assert split("A PAR S A MAR - BUR\n") == ["A PAR", "S", "A MAR", "-", "BUR", "\n"]
    assert split("F STP/SC - BOT\nWAIVE\n") == ["F STP/SC", "-", "BOT", "\n", "WAIVE", "\n"]
    assert split("A LON - NWY VIA\n") == ["A LON", "-", "NWY", "VIA", "\n"]


def test_join_inverts_split_for_legal_orders():
    for position in positions(5, 1902):
        for orders in position.legal.values():
            text = format_sheet(orders)
            assert join(split(text)) == text


def test_words_are_sorted_and_unique_and_split_as_themselves():
    listed = words()
    assert list(listed) == sorted(set(listed))
    assert all(split(word) == [word] for word in listed)
    assert 300 < len(listed) < 400


def test_tokenizers_library_splits_as_python():
    splitter = Split(Regex(WORD_PATTERN), behavior="removed", invert=True)
    texts = [render(position, "TURKEY") for position in positions(3, 1904)]
    texts += [format_sheet(orders) for orders in DiplomacyGame(1901).position.legal.values()]
    texts += ["a par - bur", "A PARIS - BUR", "A  PAR\r\nF", "FRANCE: hold!"]
    for text in texts:
        assert [piece for piece, _ in splitter.pre_tokenize_str(text)] == re.findall(WORD_PATTERN, text)


def test_views_of_one_position_differ_in_order_and_own_facts_only():
    position = DiplomacyGame(1901).position
    views = {power: split(render(position, power)) for power in POWERS}
    assert len({tuple(view) for view in views.values()}) == len(POWERS)
    assert len({tuple(sorted(view)) for view in views.values()}) == 1
