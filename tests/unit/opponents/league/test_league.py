"""The league of a run: results change the draws, line-ups are logged before they are played, a resume continues."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from opponents.league.league import League
from opponents.matchmaking.matchmaker import Matchmaker
from opponents.population.member import PopulationError
from opponents.ratings.game_score import GameScore
from opponents.settings import OpponentsSettings
from services.environments.diplomacy.position import POWERS
from services.environments.environment import World
from services.inference.engine import LEARNER
from services.metrics.catalogue import check, declare
from tests.unit.opponents.league_cases import game, member, population_of, snapshot
from tests.unit.opponents.world_cases import Deals, KnownCards, Patience, diplomacy, finished

MEMBERS = (member("random"), member("greedy"), member("dumbbot"), snapshot(2))
BOTS = {"random": 1.0, "greedy": 1.0, "dumbbot": 1.0}
STRENGTH = {"bot/random": 1, "bot/dumbbot": 3, "policy/v2": 5, "bot/greedy": 9}  # centres; the learner gets 5


DIPLOMACY = diplomacy()


def league_in(
    folder: Path,
    *,
    members=MEMBERS,
    bots=BOTS,
    world: World = DIPLOMACY,
    resume=False,
    version=0,
    generations=1,
    **keys,
) -> League:
    settings = OpponentsSettings(members=bots, **keys)
    population = population_of(folder, *members)
    declare(world.measured)
    return League(
        folder, population, settings,
        world=world, num_generations=generations, seed=7, version=version, resume=resume,
    )  # fmt: skip


def play(league: League, blocks: range, own: int = 5) -> Counter[str]:
    """Draw blocks and record their results; returns how often each member was drawn."""
    drawn: Counter[str] = Counter()
    for index in blocks:
        block = league.block(index)
        drawn.update(who for _, who in block.opponents)
        league.record(block, [game(block, own, STRENGTH)] * block.num_generations, [])
    return drawn


def test_prioritised_play_draws_members_that_beat_the_learner_more_often(tmp_path) -> None:
    with league_in(tmp_path, matchmaking="pfsp_hard", min_draw_probability=0.05, results_half_life=4) as league:
        first = play(league, range(4))  # almost nothing is known
        assert first["bot/greedy"] / first.total() < 0.45
        for update in range(3):
            play(league, range(7 + update * 28, 35 + update * 28))
            league.updated(update + 1)
        last = play(league, range(280, 350))
        assert last["bot/greedy"] / last.total() > 0.65
        assert last["bot/greedy"] > 3 * last["policy/v2"] > 3 * last["bot/random"] > 0
        # The learner becomes stronger and beats greedy, so it meets the others more often again.
        for update in range(3, 40):
            play(league, range(1000 + update * 2, 1002 + update * 2), own=20)
            league.updated(update + 1)
        grown = play(league, range(5000, 5070), own=20)
        assert grown["bot/greedy"] / grown.total() < 0.45


def test_variance_prefers_equals_and_rating_window_prefers_near_ratings(tmp_path) -> None:
    for strategy in ("pfsp_variance", "rating_window"):
        folder = tmp_path / strategy
        folder.mkdir()
        with league_in(folder, matchmaking=strategy, min_draw_probability=0.0) as league:
            for update in range(3):
                play(league, range(update * 28, update * 28 + 28))
                league.updated(update + 1)
            drawn = play(league, range(1000, 1070))
        if strategy == "pfsp_variance":
            assert max(drawn, key=drawn.__getitem__) == "policy/v2"
        else:
            # Fixed ratings: 1000, 1250 and 1490; games against all of them have put the learner between.
            assert len(drawn) == 3
            assert "policy/v2" in drawn


def test_weighted_league_draws_the_same_blocks_as_the_matchmaker(tmp_path) -> None:
    with league_in(tmp_path) as league:
        matchmaker = Matchmaker(league.population, DIPLOMACY, 1, seed=7)
        play(league, range(30))
        league.updated(1)
        assert [league.block(i, 2) for i in range(30, 60)] == [matchmaker.block(i, 2) for i in range(30, 60)]


def test_every_block_is_logged_before_it_is_played(tmp_path) -> None:
    with league_in(tmp_path, matchmaking="pfsp_hard", anchor_share=0.5, self_play_seats=1, version=3) as league:
        block = league.block(11)
        lines = [json.loads(line) for line in (tmp_path / "lineups.jsonl").read_text().splitlines()]
        assert len(lines) == 1
        assert lines[0] == {
            "index": 11, "power": block.role, "members": dict(block.opponents), "lineup": block.lineup,
            "strategy": lines[0]["strategy"], "probabilities": lines[0]["probabilities"], "version": 3,
        }  # fmt: skip
        members = league.members(block)
        assert {each.id for each in members} | {LEARNER} >= {who for _, who in block.opponents}
        assert LEARNER not in {each.id for each in members}
        for index in range(12, 26):
            league.block(index)
        strategies = [json.loads(line)["strategy"] for line in (tmp_path / "lineups.jsonl").read_text().splitlines()]
        assert 7 <= strategies.count("anchors") <= 8
        assert set(strategies) == {"anchors", "pfsp_hard"}


def test_a_restart_uses_the_logged_line_ups_even_if_results_have_changed(tmp_path) -> None:
    keys = {"matchmaking": "pfsp_hard", "min_draw_probability": 0.0}
    with league_in(tmp_path, **keys) as league:
        begun = [league.block(index) for index in range(40)]
        for block in begun[:30]:
            league.record(block, [game(block, 5, STRENGTH)] * 2, [])
        league.updated(1)
        unknown = league.block(40)
    with (tmp_path / "lineups.jsonl").open("ab") as file:
        file.write(b'{"index":41,"power":"ITA')  # a crash in the middle of a line
    retired = (*MEMBERS[:3], snapshot(2, retired=True))
    with league_in(tmp_path, members=retired, resume=True, version=1, **keys) as again:
        assert [again.block(index) for index in range(40)] == begun
        assert again.block(40) == unknown
        assert "policy/v2" in {each.id for block in begun for each in again.members(block)}
        drawn = Matchmaker(again.population, DIPLOMACY, 1, 7, OpponentsSettings(members=BOTS, **keys))
        assert begun != [drawn.block(index) for index in range(40)]
        torn = again.block(41)
        assert "policy/v2" not in {who for _, who in torn.opponents}
    lines = [json.loads(line) for line in (tmp_path / "lineups.jsonl").read_text().splitlines()]
    assert [line["index"] for line in lines] == list(range(42))


def test_a_line_up_with_a_removed_snapshot_is_drawn_again(tmp_path) -> None:
    with league_in(tmp_path, members=(snapshot(2),)) as league:
        assert {who for _, who in league.block(0).opponents} == {"policy/v2"}
    with league_in(tmp_path, members=(member("random"),), resume=True) as again:
        block = again.block(0)
        assert {who for _, who in block.opponents} == {"bot/random"}
        assert again.block(0) == block
    assert len((tmp_path / "lineups.jsonl").read_text().splitlines()) == 2


def test_the_number_of_rated_players_is_bounded_and_drawable_ones_stay(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("opponents.league.league.MOST_RATED", 4)
    with league_in(tmp_path, members=MEMBERS[:3], max_snapshots=2) as league:
        play(league, range(1))
        for version in range(1, 7):
            league.population.add(snapshot(version))
            league.updated(version)
        rated = json.loads((tmp_path / "ratings.json").read_text())["players"]
    assert [player["id"] for player in rated] == [LEARNER, "policy/v4", "policy/v5", "policy/v6"]


def test_a_damaged_log_line_is_refused_with_its_number(tmp_path) -> None:
    with league_in(tmp_path) as league:
        league.block(0)
        league.block(1)
    path = tmp_path / "lineups.jsonl"
    path.write_text(path.read_text().replace('"power"', '"powr"', 1))
    with pytest.raises(PopulationError, match=r"lineups\.jsonl is damaged in line 1"):
        league_in(tmp_path, resume=True)


def test_a_resume_keeps_results_ratings_and_levels_and_a_new_run_deletes_them(tmp_path) -> None:
    keys = {"matchmaking": "curriculum", "curriculum": ("random", "dumbbot", "greedy"), "curriculum_games": 4}
    with league_in(tmp_path, **keys) as league:
        notices = []
        for index in range(140):
            block = league.block(index)
            notices += league.record(block, [game(block, 20, STRENGTH)] * 2, [])
        metrics = league.updated(1)
        play(league, range(140, 143))  # after the update: kept by an orderly end
        expected = league.metrics()
    assert any("moves up to level 1: bot/dumbbot" in notice for notice in notices)
    check(metrics)
    assert metrics["entente_curriculum_level{country=GERMANY}"] == 3.0
    assert metrics["entente_opponent_score{opponent=bot/random}"] > 0.9
    assert metrics["entente_opponent_games_total{opponent=bot/random}"] > 20
    assert metrics["entente_rating{player=learner}"] > metrics["entente_rating{player=bot/random}"] == 1000.0
    with league_in(tmp_path, resume=True, version=1, **keys) as again:
        assert again.metrics() == expected
    with league_in(tmp_path, **keys) as new_run:
        assert not any(name.startswith("entente_opponent") for name in new_run.metrics())
        assert {new_run.metrics()[f"entente_curriculum_level{{country={power}}}"] for power in POWERS} == {0.0}


def test_a_new_snapshot_gets_the_learners_rating(tmp_path) -> None:
    with league_in(tmp_path, members=MEMBERS[:3], lineup="same") as league:
        play(league, range(70), own=20)
        league.population.add(snapshot(1))
        rated = league.updated(1)["entente_rating{player=learner}"]
        block = league.block(70)
        while {who for _, who in block.opponents} != {"policy/v1"}:
            block = league.block(block.index + 1)
        league.record(block, [game(block, 5, {"policy/v1": 5})], [])
        assert league.metrics()["entente_rating{player=policy/v1}"] == pytest.approx(rated, abs=1.0)


CARD_PLAYERS = (member("fold"), member("raise"), member("guest", "policy", version=2, country="A", source="run"))


def won(block, by: str) -> GameScore:
    """A game that one seat won; the others share the second place."""
    return GameScore(block.players, finished([[by], [seat for seat in block.players if seat != by]]))


def test_a_league_of_three_seats_draws_rates_and_moves_by_its_own_roles(tmp_path) -> None:
    world = KnownCards()
    keys = {"matchmaking": "curriculum", "curriculum": ("fold", "raise"), "curriculum_games": 2, "self_play_seats": 1}
    keys |= {"bots": {"fold": 1.0, "raise": 1.0}, "promote_margin": 1.0, "promote_min_updates": 1}
    keys |= {"min_draw_probability": 0.3}  # the anchor is met often enough to be sure
    with league_in(tmp_path, members=CARD_PLAYERS, world=world, generations=2, **keys) as league:
        notices = []
        for index in range(60):
            block = league.block(index)
            assert list(block.players) == ["C", "A", "B"]
            assert block.players[block.role] == LEARNER
            assert [seat for seat, _ in block.opponents] == [seat for seat in world.roles if seat != block.role]
            assert [who for _, who in block.opponents].count(LEARNER) == 1
            assert block.players["A"] == LEARNER or block.players["B"] != "policy/guest" != block.players["C"]
            notices += league.record(block, [won(block, block.role)] * 2, [{"won": 1.0}] * 2)
        assert {league.block(index).role for index in range(60, 63)} == set("ABC")
        new = league.snapshot_due(1)
        league.change_members(1, new, lambda population: population.add(snapshot(1)))
        metrics = league.updated(1)
    assert {notice.split(":")[0] for notice in notices} == {f"{seat} moves up to level 1" for seat in "ABC"}
    assert new is not None
    assert "above bot/fold's 1000.0 by more than 1" in new.reason
    assert [metrics[f"entente_curriculum_level{{seat={seat}}}"] for seat in "ABC"] == [1.0] * 3
    assert metrics["entente_rating{player=learner}"] > metrics["entente_rating{player=bot/fold}"] == 1000.0
    assert not (tmp_path / "starts.json").exists()
    again = league_in(tmp_path, members=(*CARD_PLAYERS, snapshot(1)), world=world, resume=True, version=1, **keys)
    with again:
        assert again.metrics() == metrics
        assert [who for _, who in again.block(59).opponents] == [who for _, who in block.opponents]


def test_specialists_for_no_role_of_the_world_are_refused(tmp_path) -> None:
    with pytest.raises(PopulationError, match="policy/guest: there is no country 'A'; there are AUSTRIA, ENGLAND"):
        league_in(tmp_path, members=CARD_PLAYERS)


def test_the_schedule_of_starts_learns_is_saved_and_a_block_keeps_its_start(tmp_path) -> None:
    world, members = Deals(), CARD_PLAYERS[:2]
    with league_in(tmp_path, members=members, world=world) as league:
        first = [league.block(index) for index in range(3)]
        assert sorted(block.start.rsplit("-", 1)[0] for block in first) == ["A-0", "B-0", "C-0"]
        for block in first:
            league.record(block, [won(block, block.role)], [{"won": float(block.role != "B")}])
        league.record(first[0], [], [])  # a block without a game says nothing
        begun = [league.block(index) for index in range(3, 6)]
        assert league.updated(1)["entente_deal_level"] == 2.0
        for block in begun:
            league.record(block, [won(block, block.role)], [{"won": 1.0}])
        later = league.block(6)
    assert sorted(block.start.rsplit("-", 1)[0] for block in begun) == ["A-1", "B-0", "C-1"]
    logged = [json.loads(line)["start"] for line in (tmp_path / "lineups.jsonl").read_text().splitlines()]
    assert logged == [block.start for block in (*first, *begun, later)]
    with league_in(tmp_path, members=members, world=world, resume=True, version=1) as again:
        assert [again.block(index) for index in range(7)] == [*first, *begun, later]
        assert again.metrics()["entente_deal_level"] == 5.0
        assert {again.block(index).start.split("-")[1] for index in range(7, 30)} == {"1", "2"}
    (tmp_path / "starts.json").write_text('{"schema": 1, "state": ["A"]}')
    with pytest.raises(PopulationError, match=r"starts\.json is damaged \(levels must be whole numbers by seat\)"):
        league_in(tmp_path, members=members, world=world, resume=True, version=1)
    with league_in(tmp_path, members=members, world=world) as new_run:
        assert new_run.metrics()["entente_deal_level"] == 0.0


def test_a_world_without_opponents_needs_no_members_and_keeps_line_ups_and_starts_alone(tmp_path) -> None:
    keys = {"matchmaking": "curriculum", "anchor_share": 0.5, "self_play_seats": 2}
    with league_in(tmp_path, members=(), world=Patience(), generations=2, **keys) as league:
        blocks = [league.block(index) for index in range(6)]
        assert {block.role for block in blocks[:3]} == {block.role for block in blocks[3:]} == set("ABC")
        assert {block.opponents for block in blocks} == {()}
        assert all(block.players == {block.role: LEARNER} for block in blocks)
        assert len({block.lineup for block in blocks}) == 3  # one for each role
        assert league.members(blocks[0]) == ()
        for block in blocks:
            assert league.record(block, [], [{"won": 1.0}] * 2) == []
        assert league.snapshot_due(1) is None
        assert league.change_members(1, None, lambda _: None) == []
        assert league.updated(1)["entente_deal_level"] == 6.0
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"lineups.jsonl", "starts.json", "population.json", ".population.json.lock"}
    with league_in(tmp_path, members=(), world=Patience(), generations=2, resume=True, version=1, **keys) as again:
        assert [again.block(index) for index in range(6)] == blocks
