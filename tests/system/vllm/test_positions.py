"""Order sheets of a thousand random positions, written by vLLM: all legal under the mask, counted without it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from diplomacy import Game

from opponents.players.llm_policy import TokenizedLanguage
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS, Position
from services.environments.diplomacy.rules.orders import WAIVE, Slot, parse, sheet
from services.environments.diplomacy.world import Diplomacy
from services.inference.engine import GenerationRequest
from tests.paths import RECORDED_GAMES
from tests.system.support.vllm_models import peaked_model, vllm_engine, word_tokenizer, write_all
from tests.unit.services.environments.diplomacy.sheets import format_sheet

pytest.importorskip("vllm", reason="vLLM is not installed: `make vllm` brings its CPU build")
pytestmark = pytest.mark.system

COUNT = 1000
KINDS = {"movement": 300, "convoys": 300, "retreats": 130, "builds": 130, "disbands": 140}
LEAST = 50  # of each kind
UNTIL_YEAR = 1912
TEMPERATURE = 2.0
FREE_TOKENS = 48
RECORDED = sorted(RECORDED_GAMES.glob("*.json"))


@dataclass(frozen=True)
class Task:
    """A decision with a choice, and the state of the game it belongs to."""

    state: Mapping[str, Any]
    position: Position
    power: str
    slots: tuple[Slot, ...]
    kind: str


@dataclass(frozen=True)
class Writer:
    """vLLM with a model whose distributions are peaked."""

    engine: Any
    runner: Any
    tokens: TokenizedLanguage

    def sheets(self, tasks: Sequence[Task], *, masked: bool) -> list[str]:
        """The texts of their sheets."""
        requests = [self._request(task, number) for number, task in enumerate(tasks)]
        if not masked:
            requests = [
                replace(request, constraint=None, max_completion_length=FREE_TOKENS, temperature=1.0)
                for request in requests
            ]
        written = self.runner.run(write_all(self.engine, requests))
        if masked:
            for task, generation in zip(tasks, written, strict=True):
                assert generation.finished
                assert generation.sampled_mask.any(), task
        return [self.tokens.text(generation.completion_ids.tolist()) for generation in written]

    def _request(self, task: Task, seed: int) -> GenerationRequest:
        return GenerationRequest(
            prompt_ids=self.tokens.prompt(task.position, task.power),
            constraint=self.tokens.constraint(task.slots),
            seed=seed,
            temperature=TEMPERATURE,
        )


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    with vllm_engine(peaked_model(), tmp_path_factory.mktemp("model")) as (engine, runner):
        yield Writer(engine, runner, TokenizedLanguage(Diplomacy.language, word_tokenizer()))


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    """A thousand decisions of random play, with a fixed number of each kind."""
    missing, found = Counter(KINDS), []
    for seed in range(400):
        if not +missing:
            return found
        rng, game = random.Random(seed), DiplomacyGame(UNTIL_YEAR)
        while not game.is_done:
            position = game.position
            for task in decisions(game.state(), position):
                # Neighbouring phases are similar, so only one in three common decisions is kept.
                if missing[task.kind] > 0 and (task.kind in ("retreats", "builds", "disbands") or rng.random() < 0.3):
                    missing[task.kind] -= 1
                    found.append(task)
            for power in position.to_move:
                game.set_orders(power, random_orders(sheet(position, power), rng))
            game.process()
    raise AssertionError(f"random play gave too few of {+missing}")


def decisions(state: Mapping[str, Any], position: Position) -> list[Task]:
    """The decisions of a phase that have a choice."""
    out = []
    for power in position.to_move:
        slots = sheet(position, power)
        if any(len(slot.alternatives) > 1 for slot in slots):
            out.append(Task(state, position, power, slots, kind_of(position, power, slots)))
    return out


def kind_of(position: Position, power: str, slots: Sequence[Slot]) -> str:
    if position.kind == "R":
        return "retreats"
    if position.kind == "A":
        return "builds" if position.adjustments[power] > 0 else "disbands"
    convoys = any(order.endswith(" VIA") or " C A " in order for slot in slots for order in slot.alternatives)
    return "convoys" if convoys else "movement"


def random_orders(slots: Sequence[Slot], rng: random.Random) -> list[str]:
    orders, claimed = [], set()
    for slot in slots:
        free = [
            (order, claim)
            for order, claim in zip(slot.alternatives, slot.claims, strict=True)
            if claim is None or claim not in claimed
        ]
        order, claim = rng.choice(free)
        claimed.add(claim)
        orders.append(order)
    return orders


def is_legal(task: Task, text: str) -> bool:
    """Whether the strict parser finds the sheet complete and without defects."""
    parsed = parse(text, task.position, task.power)
    return not parsed.defects and len(parsed.actions) == len(task.slots)


def taken_by_the_game(task: Task, orders: Sequence[str], *, expand: bool) -> list[str]:
    """The orders that a game in this state has after they were submitted; the game must accept all of them."""
    game = Game()
    game.set_state(dict(task.state))
    assert game.get_current_phase() == task.position.phase
    game.clear_orders(task.power)
    game.set_orders(task.power, list(orders), expand=expand)
    assert game.error == [], (task.power, task.position.phase, orders, game.error)
    taken: list[str] = game.get_orders(task.power)
    return sorted(taken)


def must_all_be_legal(tasks: Sequence[Task], texts: Sequence[str]) -> None:
    for task, text in zip(tasks, texts, strict=True):
        assert is_legal(task, text), (task.position.phase, task.power, text)
        orders = text.splitlines()
        assert format_sheet(orders) == text
        asked = sorted(order for order in orders if order != WAIVE)  # the game keeps no waivers
        assert taken_by_the_game(task, orders, expand=False) == asked
        # Read as people write them, a supported move loses its coast; every unit has its order all the same.
        assert [order[:5] for order in taken_by_the_game(task, orders, expand=True)] == [order[:5] for order in asked]


def test_every_masked_sheet_is_complete_and_legal(writer: Writer, tasks: list[Task]) -> None:
    counted = Counter(task.kind for task in tasks)
    assert len(tasks) == counted.total() == COUNT
    assert min(counted[kind] for kind in KINDS) >= LEAST
    assert {task.power for task in tasks} == set(POWERS)
    assert len({task.position.year for task in tasks}) > 5
    texts = writer.sheets(tasks, masked=True)
    must_all_be_legal(tasks, texts)
    # A model that always held or waived would also be legal, so every kind of order must occur.
    written = "".join(texts)
    assert all(part in written for part in (" H\n", " - ", " S ", " C A ", " VIA\n", " R ", " D\n", " B\n", "WAIVE\n"))


def test_free_text_of_a_random_model_is_mostly_illegal(writer: Writer, tasks: list[Task]) -> None:
    texts = writer.sheets(tasks, masked=False)
    lines = [(task, line) for task, text in zip(tasks, texts, strict=True) for line in text.splitlines() if line]
    legal_sheets = sum(is_legal(task, text) for task, text in zip(tasks, texts, strict=True))
    legal_lines = sum(len(parse(line, task.position, task.power).actions) for task, line in lines)
    print(
        f"\nfree text of a random model: {legal_sheets} of {len(tasks)} sheets are legal "
        f"({legal_sheets / len(tasks):.1%}), {legal_lines} of {len(lines)} lines ({legal_lines / len(lines):.1%})"
    )
    assert len(texts) == COUNT
    assert legal_sheets < COUNT / 10
    assert legal_lines < len(lines) / 2
    # The same count accepts a random choice of legal orders.
    rng = random.Random(0)
    assert all(is_legal(task, format_sheet(random_orders(task.slots, rng))) for task in tasks)


@pytest.mark.skipif(not RECORDED, reason="the recorded games (../shared/data/diplomacy_games) are absent")
def test_sheets_of_recorded_positions_are_legal(writer: Writer) -> None:
    tasks = [
        task
        for path in RECORDED
        for phase in json.loads(path.read_text())["phases"][3::13]
        if phase["name"] != "COMPLETED"
        for task in decisions(phase["state"], DiplomacyGame.from_state(phase["state"], until_year=1999).position)
    ]
    kinds = Counter(task.kind for task in tasks)
    assert len(tasks) > 100
    assert kinds.keys() == KINDS.keys(), kinds
    must_all_be_legal(tasks, writer.sheets(tasks, masked=True))
