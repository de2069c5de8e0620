"""A chat model as a player: its prompt, its mask, the parsing of its answer, and its counters."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.configs.loader import load_config
from cluster.errors import ConfigError
from opponents.matchmaking.matchmaker import Matchmaker
from opponents.players.chat_answer import order_lines, sheet_regex
from opponents.players.chat_players import ChatPlayers, add_members
from opponents.players.chat_policy import ChatPolicy
from opponents.population.member import PopulationError
from opponents.population.population import Population
from opponents.prompts.policy_prompt import messages_of
from opponents.settings import ChatPlayerSettings, OpponentsSettings
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import Position
from services.environments.diplomacy.rules.orders import Slot, parse, sheet
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.text.chat_prompt import LONG_LIST
from services.environments.diplomacy.world import Diplomacy
from services.inference.chat_endpoint.settings import EndpointError, EndpointRefusedError
from tests.unit.opponents.played_games import played_positions
from tests.unit.services.inference.chat_endpoint.endpoint_server import FakeEndpoint, Script, answer, refusal, serving

OPENING = DiplomacyGame(1901).position
GOOD = "A MAR - SPA\nA PAR - BUR\nF BRE - MAO"


POSITIONS = played_positions("greedy", 1905, seed=3)


def board(phase: str, units: dict[str, list[str]], centers: dict[str, list[str]] | None = None) -> Position:
    return DiplomacyGame.from_state({"name": phase, "units": units, "centers": centers or {}}, 1910).position


def text_of(position: Position, power: str) -> str:
    return messages_of(Diplomacy.language.sections(position, power))[1]["content"]


def test_the_prompt_lists_units_centres_and_legal_orders() -> None:
    kinds = set()
    for position in POSITIONS:
        for power in position.to_move:
            rules, prompt = messages_of(Diplomacy.language.sections(position, power))
            assert f"You play {power}" in rules["content"]
            for units in position.units.values():
                assert all(unit in prompt["content"] for unit in units)
            for slot in sheet(position, power):
                if len(slot.alternatives) <= LONG_LIST:
                    assert all(order in prompt["content"] for order in slot.alternatives)
            kinds.add(position.kind)
    assert kinds == {"M", "R", "A"}


def test_the_prompt_of_known_positions_has_the_expected_text() -> None:
    text = text_of(OPENING, "FRANCE")
    assert text.startswith("Spring 1901, movement\nAUSTRIA: A BUD, A VIE, F TRI; centres BUD TRI VIE (3)\n")
    assert "\nCentres without an owner: BEL BUL DEN GRE HOL NWY POR RUM SER SPA SWE TUN\n" in text
    assert "\nF BRE: F BRE - ENG | F BRE - GAS | F BRE - MAO | F BRE - PIC | F BRE H" in text
    builds = board("W1902A", {"RUSSIA": ["A UKR"]}, {"RUSSIA": ["MOS", "SEV", "RUM"]})
    assert "RUSSIA must build up to 2; give 2 orders. Legal orders:\nA MOS B\n" in text_of(builds, "RUSSIA")
    disbands = board("W1902A", {"RUSSIA": ["A UKR", "A WAR"]}, {"RUSSIA": ["MOS"]})
    assert text_of(disbands, "RUSSIA").endswith("RUSSIA must disband 1; give 1 order. Legal orders:\nA UKR D\nA WAR D")


def test_long_lists_leave_out_only_support_and_convoys_of_other_powers() -> None:
    crowded = [
        (position, power, slot.alternatives)
        for position in POSITIONS
        for power in position.to_move
        for slot in sheet(position, power)
        if len(slot.alternatives) > LONG_LIST
    ]
    assert crowded
    for position, power, alternatives in crowded:
        (line,) = [
            line for line in text_of(position, power).splitlines() if line.startswith(f"{alternatives[0][:5]}: ")
        ]
        assert line.endswith(" | also supports and convoys of other powers' units")
        listed = set(line.split(": ", 1)[1].split(" | ")[:-1])
        left_out = set(alternatives) - listed
        assert listed < set(alternatives)
        assert all(order.split()[2] in "SC" for order in left_out)
        assert not [order for order in left_out for unit in position.units[power] if f" {unit}" in order]
    assert all(len(text_of(position, power)) < 8000 for position, power, _ in crowded)


def allowed(slots: tuple[Slot, ...], lines: tuple[str, ...]) -> bool:
    return len(lines) == len(slots) and all(line in slot.alternatives for line, slot in zip(lines, slots, strict=True))


def test_the_mask_matches_exactly_the_sheets_that_the_slots_allow() -> None:
    rng, kinds = random.Random(5), set()
    for position in POSITIONS:
        for power in position.to_move:
            slots = sheet(position, power)
            pattern = re.compile(sheet_regex(slots))
            legal = [order for slot in slots for order in slot.alternatives]
            everywhere = sorted({order for orders in position.legal.values() for order in orders})
            for _ in range(20):
                good = tuple(rng.choice(slot.alternatives) for slot in slots)
                assert pattern.fullmatch("\n".join(good))
                at = rng.randrange(len(good))
                for lines in (
                    good[::-1],
                    good[:-1],
                    (*good, rng.choice(legal)),
                    (*good[:at], rng.choice(everywhere), *good[at + 1 :]),
                    (*good[:at], good[at].lower(), *good[at + 1 :]),
                    (*good[:at], good[at] + " ", *good[at + 1 :]),
                ):
                    assert bool(pattern.fullmatch("\n".join(lines))) == allowed(slots, lines), lines
            kinds.add(position.kind)
    assert kinds == {"M", "R", "A"}


def test_the_mask_of_a_small_position_matches_exactly_every_sheet() -> None:
    position = board("F1902M", {"ITALY": ["A TUN"], "TURKEY": ["F ION"]})
    slots = sheet(position, "ITALY")
    pattern = re.compile(sheet_regex(slots))
    everything = sorted({order for orders in position.legal.values() for order in orders})
    assert [order for order in everything if pattern.fullmatch(order)] == list(slots[0].alternatives)
    both = board("F1902M", {"ITALY": ["A TUN", "F ION"]})
    pattern = re.compile(sheet_regex(sheet(both, "ITALY")))
    pairs = itertools.product(sorted({order for orders in both.legal.values() for order in orders}), repeat=2)
    matched = {pair for pair in pairs if pattern.fullmatch("\n".join(pair))}
    assert matched == set(itertools.product(*(slot.alternatives for slot in sheet(both, "ITALY"))))


@pytest.mark.parametrize(
    "written",
    [
        GOOD,
        f"<think>A MAR H?\nNo.</think>\n\n{GOOD}\n",
        "```\n" + GOOD + "\n```",
        "1. A MAR - SPA\n2. A PAR - BUR\n3) F BRE - MAO",
        "- A MAR - SPA\n* A PAR - BUR\n- **F BRE - MAO**",
        "`a mar -> spa`\nA PAR-BUR.\n  F BRE - MAO  ",
    ],
)
def test_decoration_around_orders_is_not_a_defect(written: str) -> None:
    parsed = parse(order_lines(written), OPENING, "FRANCE", repair=True)
    assert sorted(parsed.actions) == sorted(GOOD.splitlines())
    assert {defect.reason for defect in parsed.defects} <= {"repaired"}


def orders_of_france(
    script: Script,
    check: Callable[[ChatPolicy, FakeEndpoint], object],
    position: Position = OPENING,
    **settings: object,
) -> tuple[str, ...]:
    """The orders of France in ``position``; ``check`` is called with the policy afterwards."""

    async def run() -> tuple[str, ...]:
        async with serving(script) as endpoint:
            players = ChatPlayers({"chat": endpoint.settings(**settings)})
            policy = players.policy("chat")
            try:
                decision = await policy.act(position, "FRANCE", 11)
                assert decision.turn is None
                return decision.actions
            finally:
                await players.close()
                check(policy, endpoint)

    return asyncio.run(run())


def counted(**expected: float) -> Callable[[ChatPolicy, FakeEndpoint], object]:
    def check(policy: ChatPolicy, endpoint: FakeEndpoint) -> None:
        stats = policy.stats()
        assert {name: stats[name] for name in expected} == expected

    return check


def test_a_good_answer_is_played_as_it_is() -> None:
    orders = orders_of_france(lambda _: answer(GOOD), counted(decisions=1, calls=1, defects=0, corrections=0))
    assert orders == tuple(GOOD.splitlines())


def test_an_answer_that_leaves_units_out_is_corrected_once() -> None:
    def check_correction(policy: ChatPolicy, endpoint: FakeEndpoint) -> None:
        assert policy.stats()["corrections"] == 1
        assert policy.stats()["defects"] == 0
        complaint = endpoint.requests[1]["messages"][-1]["content"]
        assert "A PAR - LON: illegal" in complaint
        assert "F BRE: missing" in complaint

    answers = iter(["A MAR - SPA\nA PAR - LON", GOOD])
    assert orders_of_france(lambda _: answer(next(answers)), check_correction) == tuple(GOOD.splitlines())

    worse = iter(["A MAR - SPA\nA PAR - LON", "I give up"])
    check = counted(decisions=1, calls=2, corrections=1, defects=2)
    assert orders_of_france(lambda _: answer(next(worse)), check) == ("A MAR - SPA",)


def test_comments_beside_a_complete_sheet_are_counted_without_another_call() -> None:
    orders = orders_of_france(lambda _: answer(f"Here you are:\n{GOOD}"), counted(calls=1, corrections=0, defects=1))
    assert orders == tuple(GOOD.splitlines())


def test_two_builds_in_one_place_are_reduced_to_one_when_parsed() -> None:
    winter = board("W1902A", {"FRANCE": ["A GAS"]}, {"FRANCE": ["PAR", "BRE", "MAR"]})
    assert orders_of_france(lambda _: answer("A PAR B\nA PAR B"), counted(corrections=1, defects=1), winter) == (
        "A PAR B",
    )


def test_a_call_that_fails_stops_the_game_or_is_counted_as_held() -> None:
    with pytest.raises(EndpointError, match="HTTP 500: out of memory"):
        orders_of_france(lambda _: refusal(500, "out of memory"), counted(failures=1, held=0), max_retries=0)
    check = counted(decisions=1, calls=0, failures=1, held=1)
    assert orders_of_france(lambda _: refusal(500, "oh"), check, max_retries=0, on_failure="hold") == ()
    with pytest.raises(EndpointRefusedError, match="HTTP 401"):
        orders_of_france(lambda _: refusal(401, "oh"), counted(held=0), on_failure="hold")


def test_chat_players_are_opened_by_name_and_report_their_counters() -> None:
    settings = ChatPlayerSettings(base_url="http://127.0.0.1:1/v1", model="m", max_retries=0, on_failure="hold")
    players = ChatPlayers({"one": settings, "two": settings})
    assert players.policy("one") is players.policy("one")
    with pytest.raises(EndpointError, match="no remote is called 'three'; there are one, two"):
        players.policy("three")
    with pytest.raises(EndpointError, match=r"describe it in a table \[opponents.remotes.three\]"):
        ChatPlayers({}).policy("three")
    assert players.report() == []
    assert asyncio.run(players.policy("one").act(OPENING, "FRANCE", 0)).actions == ()
    (line,) = players.report()
    assert line.startswith("remote:one: decisions 1, calls 0, retries 0, failures 1, corrections 0, defects 0, held 1;")
    assert players.totals()["remote_failures"] == 1


def test_chat_players_join_the_population_and_are_drawn(tmp_path: Path) -> None:
    settings = ChatPlayerSettings(base_url="http://127.0.0.1:1/v1", model="m")
    population = Population(tmp_path / "population.json")
    opponents = OpponentsSettings(members={"random": 0.0, "remote:chat": 1.0}, remotes={"chat": settings})
    add_members(population, opponents)
    population.save()
    member = population["remote/chat"]
    assert Population.load(population.path)["remote/chat"] == member
    block = Matchmaker(population, Diplomacy(GameSettings()), 2, seed=1).block(0, newest_snapshot=0)
    assert {member_id for _, member_id in block.opponents} == {"remote/chat"}
    moved = settings.model_copy(update={"base_url": "http://127.0.0.1:2/v1"})
    assert ChatPlayers({"chat": moved}).member(member) is not None
    with pytest.raises(PopulationError, match="remote/chat joined the population with other settings"):
        ChatPlayers({"chat": settings.model_copy(update={"model": "other"})}).member(member)


def test_configs_may_only_name_chat_players_they_describe(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[opponents.remotes.chat]\nbase_url = "http://127.0.0.1:1/v1/"\nmodel = "m"\n')
    config = load_config(file, ["opponents.members.remote:chat=2.0", "opponents.remotes.chat.timeout_s=5"])
    assert config.opponents.members == {"remote:chat": 2.0}
    assert config.opponents.remotes["chat"].base_url == "http://127.0.0.1:1/v1"
    for override, hint in (
        ("opponents.members.remote:chta=1.0", "no remote is called 'chta'; there are chat"),
        ("opponents.remotes.chat.timeout=5", "did you mean opponents.remotes.chat.timeout_s?"),
        ("opponents.remotes.other.model=m", "opponents.remotes.other.base_url: it is not set (URL of the API"),
        ("opponents.remotes.a b.model=m", "a b"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_config(file, [override])
        assert hint in str(caught.value)
