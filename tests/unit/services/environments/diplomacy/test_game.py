"""DiplomacyGame against the engine's public path, its rules of ending, and its files."""

import json
import random

import pytest
from diplomacy import Game
from diplomacy.utils.export import from_saved_game_format, is_valid_saved_game, load_saved_games_from_disk
from hypothesis import given, settings
from hypothesis import strategies as st

from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.game_origin import ORIGIN_KEY, GameOrigin
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.rules.legal import standard_map
from services.environments.diplomacy.rules.orders import sheet
from services.environments.diplomacy.saved_game import SavedGameError
from services.environments.seat_player import SeatPlayer


def random_orders(position, power, rng):
    orders, used = [], set()
    for slot in sheet(position, power):
        free = [index for index, claim in enumerate(slot.claims) if claim is None or claim not in used]
        index = rng.choice(free)
        orders.append(slot.alternatives[index])
        used.add(slot.claims[index])
    return orders


def play_on(game, rng, until_phase=None):
    while not game.is_done and game.position.phase != until_phase:
        for power in game.position.to_move:
            assert game.set_orders(power, random_orders(game.position, power, rng)) == ()
        game.process()
    return game


def facts(engine):
    return {key: value for key, value in engine.get_state().items() if key != "timestamp"}


def histories(engine):
    orders = {str(phase): orders for phase, orders in engine.order_history.items()}
    results = {str(phase): str(result) for phase, result in engine.result_history.items()}
    return orders, results


def test_written_orders_give_the_same_game_as_set_orders():
    kinds = set()
    for seed in range(6):
        rng, ours, plain = random.Random(seed), DiplomacyGame(1907), Game()
        while not ours.is_done:
            kinds.add(ours.position.kind)
            for power in ours.position.to_move:
                orders = random_orders(ours.position, power, rng)
                # Some sheets are incomplete: units without orders, disbands left to civil disorder.
                orders = orders[: rng.choice([0, 1, len(orders), len(orders), len(orders)])]
                ours.set_orders(power, orders)
                plain.set_orders(power, orders)
                mine, theirs = ours._engine.powers[power], plain.powers[power]
                assert (mine.orders, mine.adjust) == (theirs.orders, theirs.adjust)
                assert mine.order_is_set == theirs.order_is_set
            ours.process()
            assert plain.error == []
            plain.process()
            assert ours.hash() == plain.get_hash()
            assert facts(ours._engine) == facts(plain)
        assert histories(ours._engine) == histories(plain)
    assert kinds == {"M", "R", "A"}


def test_fleet_is_supported_into_either_coast():
    units = {"TURKEY": ["F CON", "F BLA"], "RUSSIA": ["A BUL"]}
    for coast in ("", "/EC", "/SC"):
        game = DiplomacyGame.from_state({"name": "F1903M", "units": units}, 1905)
        assert game.set_orders("TURKEY", ["F CON - BUL/SC", f"F BLA S F CON - BUL{coast}"]) == ()
        game.set_orders("RUSSIA", ["A BUL H"])
        game.process()
        assert "F BUL/SC" in game.position.units["TURKEY"]


def engine_legal(game, position):
    everything = game._engine.get_all_possible_orders()
    places = [place for power in POWERS for place in position.orderable[power]]
    return {place: tuple(sorted(everything[place])) for place in places}


def test_legal_orders_are_the_engines_in_whole_games():
    for seed in range(2):
        game, rng = DiplomacyGame(1906), random.Random(seed)
        while not game.is_done:
            assert dict(game.position.legal) == engine_legal(game, game.position)
            locations = game._engine.get_orderable_locations()
            for power in POWERS:
                assert sorted(place[:3] for place in game.position.orderable[power]) == locations[power]
            for power in game.position.to_move:
                game.set_orders(power, random_orders(game.position, power, rng))
            game.process()


def crowded_game(rng, fleets):
    """A board with any units anywhere: with more convoys and coasts than games from the start have."""
    board, units, taken = standard_map(), {power: [] for power in POWERS}, set()
    places = sorted(place.upper() for place in board.locs if board.area_type(place) != "SHUT")
    for place in rng.sample(places, len(places)):
        kinds = [kind for kind in "AF" if board.is_valid_unit(f"{kind} {place}")]
        if place[:3] in taken or len(taken) == 34 or not kinds:
            continue
        if "F" in kinds and (len(kinds) == 1 or rng.random() < fleets):
            kinds = ["F"]
        taken.add(place[:3])
        units[rng.choice(POWERS)].append(f"{kinds[0]} {place}")
    return DiplomacyGame.from_state({"name": "S1905M", "units": units}, 1910)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), fleets=st.sampled_from([0.2, 0.5, 0.8]))
def test_random_positions_play_as_in_the_engine(seed, fleets):
    rng = random.Random(seed)
    ours, plain = crowded_game(rng, fleets), Game()
    plain.set_state(ours.state())
    for _ in range(3):
        position = ours.position
        assert dict(position.legal) == engine_legal(ours, position)
        for power in position.to_move:
            orders = random_orders(position, power, rng)
            assert ours.set_orders(power, orders) == ()
            plain.set_orders(power, orders)
            mine, theirs = ours._engine.powers[power], plain.powers[power]
            assert (mine.orders, mine.adjust) == (theirs.orders, theirs.adjust)
        ours.process()
        assert plain.error == []
        plain.process()
        assert facts(ours._engine) == facts(plain)


def test_later_orders_replace_earlier_ones():
    game = DiplomacyGame(1901)
    game.set_orders("FRANCE", ["A PAR - BUR", "A MAR - SPA", "F BRE - MAO"])
    game.set_orders("FRANCE", ["A PAR - PIC"])
    game.process()
    assert game.position.units["FRANCE"] == ("A MAR", "A PIC", "F BRE")


def test_illegal_order_is_reported_and_the_unit_holds():
    game = DiplomacyGame(1901)
    defects = game.set_orders("FRANCE", ["A PAR - MOS", "A MAR S A PAR", "F BRE - MAO"])
    assert [(defect.text, defect.reason) for defect in defects] == [
        ("A PAR - MOS", "illegal"),
        ("A MAR S A PAR", "illegal"),
    ]
    game.process()
    assert game.position.units["FRANCE"] == ("A MAR", "A PAR", "F MAO")


def test_game_ends_after_the_adjustments_of_its_last_year():
    game = play_on(DiplomacyGame(1901), random.Random(3))
    assert game.position.year == 1902
    assert game.position.to_move == ()
    outcome = game.outcome()
    assert (outcome.kind, outcome.winners, outcome.final_year) == ("year_limit", (), 1901)
    assert outcome.phases >= 3
    assert outcome.centers == game.centers()
    with pytest.raises(RuntimeError, match="over"):
        game.process()


def test_outcome_of_an_unfinished_game_raises():
    with pytest.raises(RuntimeError, match="S1901M of 1901"):
        DiplomacyGame(1901).outcome()


def nearly_won_game():
    centers = [*standard_map().scs]
    mine = [center for center in centers if center not in {"PAR", "MUN", "LON", "VEN"}][:17]
    rest = [center for center in centers if center not in mine]
    state = {
        "name": "F1907M",
        "units": {"FRANCE": ["A BUR", "F ENG"], "GERMANY": ["F NTH"]},
        "centers": {"FRANCE": mine, "GERMANY": rest},
    }
    return DiplomacyGame.from_state(state, 1910)


def test_eighteen_centres_are_a_solo():
    game = nearly_won_game()
    game.set_orders("FRANCE", ["A BUR - PAR", "F ENG - LON"])
    game.process()
    outcome = game.outcome()
    assert (outcome.kind, outcome.winners, outcome.final_year) == ("solo", ("FRANCE",), 1907)
    assert outcome.centers["FRANCE"] == 19
    assert (game.position.phase, game.position.to_move) == ("W1907A", ())


def test_agreed_draw_ends_the_game(tmp_path):
    game = play_on(DiplomacyGame(1905), random.Random(1), until_phase="F1901M")
    game._engine.draw(winners=["TURKEY", "FRANCE"])
    outcome = game.outcome()
    assert (outcome.kind, outcome.winners, outcome.final_year) == ("draw", ("FRANCE", "TURKEY"), 1901)
    game.save(tmp_path / "game.json")
    assert DiplomacyGame.load(tmp_path / "game.json", 1905).outcome() == outcome


@pytest.mark.parametrize("phase", ["F1903M", "retreats", "W1902A"])
def test_saved_game_resumes_identically(tmp_path, phase):
    game, rng = DiplomacyGame(1904, game_id="one"), random.Random(11)
    while game.position.phase != phase and not (phase == "retreats" and game.position.kind == "R"):
        for power in game.position.to_move:
            game.set_orders(power, random_orders(game.position, power, rng))
        game.process()
    game.save(tmp_path / "game.json")
    loaded = DiplomacyGame.load(tmp_path / "game.json", 1904)
    assert loaded._engine.game_id == "one"
    assert loaded.position == game.position
    fork = DiplomacyGame.from_state(game.state(), 1904)
    for other in (loaded, fork):
        assert other.hash() == game.hash()
    ends = [play_on(each, random.Random(5)).hash() for each in (game, loaded, fork)]
    assert ends[0] == ends[1] == ends[2]
    assert loaded.outcome() == game.outcome()


def test_engine_reads_saved_games(tmp_path):
    game = play_on(DiplomacyGame(1902), random.Random(2))
    game.save(tmp_path / "game.json")
    text = (tmp_path / "game.json").read_text()
    engine = from_saved_game_format(json.loads(text))
    assert engine.get_hash() == game.hash()
    assert len(engine.state_history) == game.outcome().phases
    assert text.endswith("}\n")
    assert text.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["game.json"]


def test_the_record_of_who_played_lies_beside_what_the_engine_reads(tmp_path):
    game = play_on(DiplomacyGame(1901, game_id="a"), random.Random(2))
    seats = {
        **dict.fromkeys(POWERS, SeatPlayer("random", "bot", checksum="0f")),
        "FRANCE": SeatPlayer("v", "learner", 3),
    }
    game.save(tmp_path / "without.json")
    game.origin = GameOrigin(seats, seed=2**62 + 1, until_year=1901, commit="c", package_version="1")
    game.save(tmp_path / "with.json")
    with_record, without = (json.loads((tmp_path / name).read_text()) for name in ("with.json", "without.json"))
    record = with_record.pop(ORIGIN_KEY)
    # The last phase has the time of its saving.
    assert with_record.keys() == without.keys()
    assert with_record["phases"][:-1] == without["phases"][:-1]
    assert record["seats"]["FRANCE"] == {
        "player": "v", "kind": "learner", "version": 3, "checksum": None, "decoding": None, "temperature": None,
    }  # fmt: skip
    assert (record["seed"], record["until_year"], record["commit"], record["package_version"]) == (
        2**62 + 1,
        1901,
        "c",
        "1",
    )
    [engine] = load_saved_games_from_disk(str(tmp_path / "with.json"))
    assert engine.get_hash() == game.hash()
    assert is_valid_saved_game({**with_record, ORIGIN_KEY: record})
    assert DiplomacyGame.load(tmp_path / "with.json", 1901).hash() == game.hash()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "not one JSON document"),
        ("[1, 2]", "no list of phases"),
        ('{"phases": []}', "no list of phases"),
        ('{"phases": [{"name": "S1901M"}]}', "not a saved game: "),
        ('{"phases": ["S1901M"]}', "not a saved game: "),
        ('{"phases": [7], "map": "ancmed"}', "on the map 'ancmed'"),
        ('{"phases": [7], "rules": ["NO_CHECK"]}', "NO_CHECK"),
    ],
)
def test_invalid_saved_game_raises_one_line(tmp_path, content, reason):
    path = tmp_path / "game.json"
    path.write_text(content)
    with pytest.raises(SavedGameError, match=reason) as caught:
        DiplomacyGame.load(path, 1905)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_missing_file_raises(tmp_path):
    with pytest.raises(SavedGameError, match="cannot be read"):
        DiplomacyGame.load(tmp_path / "none.json", 1905)


def test_finished_state_raises():
    game = DiplomacyGame(1905)
    game._engine.draw(winners=["FRANCE", "ITALY"])
    with pytest.raises(ValueError, match="finished"):
        DiplomacyGame.from_state(game.state(), 1905)


def test_games_are_the_same_under_every_hash_seed():
    position = play_on(DiplomacyGame(1902), random.Random(4), until_phase="F1902M").position
    for lines in position.legal.values():
        assert list(lines) == sorted(set(lines))
    for by_power in (position.units, position.centers):
        assert all(list(things) == sorted(things) for things in by_power.values())
