"""The population at an update: snapshots that join and retire, also with blocks in progress against them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from opponents.league.league import League
from opponents.league.membership import NewSnapshot
from opponents.population.member import Member
from opponents.population.population import Population
from opponents.settings import OpponentsSettings
from services.environments.diplomacy.position import POWERS
from services.inference.engine import LEARNER
from services.metrics.catalogue import check
from tests.unit.opponents.league_cases import game, member, snapshot
from tests.unit.opponents.world_cases import diplomacy

EVEN = {"bot/random": 5, "policy/v2": 5}


def league_in(folder: Path, *members: Member, resume: bool = False, version: int = 0, **keys: object) -> League:
    """A league with the folder's population, or a new one of these members."""
    settings = OpponentsSettings(members={"random": 1.0}, **keys)  # type: ignore[arg-type]
    population = Population(folder / "population.json")
    with population.transaction():
        for each in members:
            population.add(each)
    return League(
        folder,
        population,
        settings,
        world=diplomacy(1905),
        num_generations=2,
        seed=7,
        version=version,
        resume=resume,
    )


def at(league: League, version: int) -> tuple[NewSnapshot | None, list[str]]:
    """Change the members as training does at an update."""
    new = league.snapshot_due(version)
    notices = league.change_members(version, new, lambda population: population.add(snapshot(version)))
    check(league.updated(version))
    return new, notices


def play(league: League, blocks: range, own: int) -> None:
    for index in blocks:
        block = league.block(index)
        league.record(block, [game(block, own, EVEN)] * block.num_generations, [])


def test_a_winning_learner_is_promoted_and_a_level_one_is_not(tmp_path) -> None:
    keys = {"promote_margin": 10.0, "promote_min_updates": 2, "snapshot_every": 10}
    with league_in(tmp_path, member("random"), **keys) as league:
        joined = []
        for version in range(1, 5):
            play(league, range(version * 7, version * 7 + 7), own=5)
            joined.append(at(league, version)[0])
        assert joined == [None] * 4  # as strong as the random bot
        for version in range(5, 8):
            play(league, range(version * 7, version * 7 + 7), own=20)
            new, notices = at(league, version)
            if new is not None:
                break
        assert new is not None
        assert new.lead is not None
        low = new.lead.lower_bound(2.0)
        assert new.lead.rival_rating + 10 < low < new.lead.rating
        assert notices == [f"v{version} joins the population: {new.reason}"]
        for said in (f"{new.lead.rating:.1f} +- {new.lead.sigma:.1f}", f"{low:.1f} above bot/random's"):
            assert said in new.reason
        assert f"policy/v{version}" in league.population
        assert league.snapshot_due(version) is None, "once is enough"
        assert at(league, version + 1)[0] is None, "it is its own rival now, and too new"
        on_schedule, _ = at(league, 10)
        assert on_schedule is not None
        assert on_schedule.lead is None
        metrics = league.metrics()
    assert metrics["entente_promotions_total"] == 1.0
    assert metrics["entente_population_size{state=active}"] == 3.0
    with league_in(tmp_path, resume=True, version=10, **keys) as again:
        assert again.metrics()["entente_promotions_total"] == 1.0
        with again.population.transaction():
            again.population.remove_snapshots_after(version - 1)  # a resume from an older checkpoint
        assert again.metrics()["entente_promotions_total"] == 0.0
    with league_in(tmp_path, **keys) as new_run:
        assert new_run.metrics()["entente_promotions_total"] == 0.0
        assert not (tmp_path / "promotions.json").exists()


def test_schedule_and_promotion_together_make_one_snapshot_per_update(tmp_path) -> None:
    keys = {"promote_margin": 1.0, "promote_min_updates": 1, "snapshot_every": 1}
    with league_in(tmp_path, member("random"), **keys) as league:
        for version in range(1, 4):
            play(league, range(version * 7, version * 7 + 7), own=20)
            new, notices = at(league, version)
            assert new is not None
            assert new.reason == "a snapshot every 1 updates"
            assert len(notices) == 1
        assert [each.id for each in league.population.members[1:]] == ["policy/v1", "policy/v2", "policy/v3"]


def test_a_member_with_blocks_in_progress_retires_when_they_are_over(tmp_path) -> None:
    keys = {"max_members": 1, "snapshot_every": 2}
    with league_in(tmp_path, member("random", weight=1e-9), snapshot(2), **keys) as league:
        begun = [league.block(0), league.block(1)]
        assert {who for block in begun for _, who in block.opponents} == {"policy/v2"}
        _, notices = at(league, 4)
        assert notices == ["v4 joins the population: a snapshot every 2 updates"]
        assert not league.population["policy/v2"].retired
        # But it is not drawn again, even where the new snapshot may not be drawn yet.
        after = [league.block(index) for index in range(2, 30)]
        assert {who for block in after for _, who in block.opponents} == {"policy/v4"}
        early = league.block(30, newest_snapshot=3)
        assert {who for _, who in early.opponents} == {"bot/random"}
        league.record(begun[0], [], [])
        assert at(league, 5)[1] == []
        assert not league.population["policy/v2"].retired
        league.record(begun[1], [], [])
        _, notices = at(league, 6)
        assert notices[0].startswith("v6 joins")
        assert [line.split(":")[0] for line in notices[1:]] == ["policy/v2 retires"]
        assert league.metrics()["entente_population_size{state=retired}"] == 1.0
        assert league.metrics()["entente_population_size{state=active}"] == 3.0  # the bot, v6, and v4 in flight


def test_a_resume_continues_a_block_whose_member_has_retired(tmp_path) -> None:
    keys = {"max_members": 1, "snapshot_every": 2}
    with league_in(tmp_path, member("random", weight=1e-9), snapshot(2), **keys) as league:
        begun = league.block(0)
        assert {who for _, who in begun.opponents} == {"policy/v2"}
    # The next process knows no block in progress before it draws one again, so it retires the member first.
    with league_in(tmp_path, resume=True, version=4, **keys) as again:
        at(again, 4)
        assert again.population["policy/v2"].retired
        assert Population.load(tmp_path / "population.json")["policy/v2"].retired
        assert again.block(0) == begun
        assert [each.id for each in again.members(begun)] == ["policy/v2"]
        again.record(begun, [game(begun, 5, EVEN)], [])
        assert "policy/v2" not in {who for index in range(1, 20) for _, who in again.block(index).opponents}


def test_a_resume_from_an_older_checkpoint_removes_the_results_of_later_snapshots(tmp_path) -> None:
    keys = {"snapshot_every": 2, "max_snapshots": 8}
    with league_in(tmp_path, member("random", weight=0.5), **keys) as league:
        for version in range(1, 7):
            play(league, range(version * 7, version * 7 + 7), own=20)
            at(league, version)
        before = league.metrics()
    with Population(tmp_path / "population.json").transaction() as population:
        population.remove_snapshots_after(3)
    with league_in(tmp_path, resume=True, version=3, **keys) as again:
        metrics = again.metrics()
        rating = "entente_rating{player=learner}"
        assert metrics[rating] == pytest.approx(before[rating], abs=1.0)
        # It is as uncertain as after three further updates without a game: this learner has not played since.
        sigma = "entente_rating_deviation{player=learner}"
        assert metrics[sigma] ** 2 - before[sigma] ** 2 > 3 * 5.0**2 - 1
        assert metrics["entente_opponent_games_total{opponent=policy/v2}"] > 0
        play(again, range(100, 114), own=1)
        at(again, 4)
        assert "entente_opponent_games_total{opponent=policy/v4}" not in again.metrics()
        rated = {each["id"]: each for each in json.loads((tmp_path / "ratings.json").read_text())["players"]}
    assert rated.keys() == {LEARNER, "policy/v2", "policy/v4"}
    assert rated["policy/v4"]["strength"] == rated[LEARNER]["strength"]


def test_seven_specialists_join_together_and_each_replaces_its_countrys_previous_one(tmp_path) -> None:
    keys = {"max_members": 1, "snapshot_every": 1}
    with league_in(tmp_path, member("random"), **keys) as league:
        for version in (1, 2):
            new = league.snapshot_due(version)

            def add(population: Population, version: int = version) -> None:
                for power in POWERS:
                    population.add(member(f"v{version}-{power}", "policy", version=version, country=power))

            notices = league.change_members(version, new, add)
            league.updated(version)
            assert league.snapshot_due(version) is None
        active = {each.id for each in league.population.active()}
        rated = {each["id"] for each in json.loads((tmp_path / "ratings.json").read_text())["players"]}
    assert active == {"bot/random", *(f"policy/v2-{power}" for power in POWERS)}
    assert len(notices) == 8
    assert rated == {LEARNER, *(f"policy/v{version}-{power}" for version in (1, 2) for power in POWERS)}


def test_a_new_snapshot_is_rated_before_selection_compares_others_with_it(tmp_path) -> None:
    keys = {"max_members": 1, "snapshot_every": 2}
    with league_in(tmp_path, member("random"), **keys) as league:
        for index in range(35):
            block = league.block(index)
            strong = block.role in ("FRANCE", "RUSSIA", "TURKEY")
            league.record(block, [game(block, 20 if strong else 1, EVEN)] * 2, [])
        at(league, 2)
        _, notices = at(league, 4)
        rated = {each["id"]: each for each in json.loads((tmp_path / "ratings.json").read_text())["players"]}
    assert rated["policy/v4"]["strength"] == rated[LEARNER]["strength"]
    assert np.std(rated["policy/v2"]["deviations"]) > 10
    found = re.fullmatch(r"policy/v2 retires: .* by country it is (.*) points from policy/v4; 1 stay .*", notices[1])
    assert found is not None
    assert float(found[1]) < 5, "both are as the learner was, but for two updates"
