"""Decisions of played games are recorded without changing the game, and policies are asked about saved ones."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

import pytest

from cluster.errors import RunError
from cluster.evaluation.play import save_decisions
from cluster.evaluation.records.decision_recorder import DecisionRecorder, policy_of
from opponents.play import play_game
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.playing import Decision, Policy
from services.inference.engine import EngineError
from services.reports.game_viewer.decisions import decisions_path
from services.reports.game_viewer.game_viewer import make_replay
from tests.unit.opponents.insight.cases import peaked_policy


def played(recorder: DecisionRecorder | None, seed: int = 5, **changes: object) -> DiplomacyGame:
    policy, _ = peaked_policy(**changes)
    game = DiplomacyGame(1903, "one")
    bot = make_bot("dumbbot")
    seats: dict[str, Policy] = {power: policy if power in ("FRANCE", "ITALY") else bot for power in POWERS}
    if recorder is not None:
        seats = {power: recorder.watched("policy" if each is policy else "bot", each) for power, each in seats.items()}
        assert seats["TURKEY"] is bot
    asyncio.run(play_game(game, seats, seed))
    return game


def test_a_recorded_game_is_the_same_game() -> None:
    recorder = DecisionRecorder()
    with_record, without = (json.loads(played(each).saved()) for each in (recorder, None))
    assert [phase["orders"] for phase in with_record["phases"]] == [phase["orders"] for phase in without["phases"]]
    found = recorder.recorded("one")
    assert {each.power for each in found.decisions} == {"FRANCE", "ITALY"}
    given = {phase["name"]: phase["orders"] for phase in with_record["phases"]}
    for each in found.decisions:
        chosen = [choice.chosen for choice in each.choices]
        assert [order for order in chosen if order != "WAIVE"] == given[each.phase][each.power]
        assert each.note == ""
        assert each.temperature == 1.0
        assert found.prompt(each).startswith(each.power)
        for choice in each.choices:
            assert dict(choice.orders).get(choice.chosen, choice.probability) == choice.probability
            assert sum(share for _, share in choice.orders) + choice.rest == pytest.approx(1, abs=2e-3)
    replay = make_replay(with_record, found)
    assert replay.data["decisionsNote"] == ""
    assert sum(map(len, replay.data["decisions"].values())) == len(found.decisions)


def test_decisions_come_in_the_order_of_phases_and_powers() -> None:
    recorder = DecisionRecorder()
    played(recorder)
    places = [(each.phase, each.power) for each in recorder.recorded("one").decisions]
    assert places[:3] == [("S1901M", "FRANCE"), ("S1901M", "ITALY"), ("F1901M", "FRANCE")]
    assert len(places) == len(set(places))


def test_free_text_is_judged_as_under_a_mask_and_new_weights_are_noted() -> None:
    recorder = DecisionRecorder()
    played(recorder, decoding="free", max_completion_length=8)
    assert all(each.choices for each in recorder.recorded("one").decisions)

    policy, _ = peaked_policy()
    other, _ = peaked_policy()
    position = DiplomacyGame(1901).position

    async def decide() -> None:
        decision = await policy.act(position, "FRANCE", 3)
        await mixed.record("policy", policy, position, "FRANCE", decision, played=True)
        await mixed.record("policy", policy.at(0.3), position, "FRANCE", decision, played=True)

    mixed = DecisionRecorder()
    asyncio.run(decide())
    notes = [each.note for each in mixed.recorded("one").decisions]
    assert notes[0] == ""
    assert notes[1].startswith("The policy took new weights while it decided")
    assert asyncio.run(policy_of(make_bot("random"), "FRANCE")) is None
    assert asyncio.run(policy_of(other, "FRANCE")) is other


def test_a_player_without_probabilities_still_shows_what_it_read() -> None:
    class Chat:
        def read(self, position: object, power: str) -> object:
            return peaked_policy()[0].read(position, power)

        async def act(self, position: object, power: str, seed: int) -> Decision:
            return Decision(())

    recorder = DecisionRecorder()
    position = DiplomacyGame(1901).position
    asyncio.run(recorder.watched("remote:gpt", Chat()).act(position, "FRANCE", 1))
    (decision,) = recorder.recorded("one").decisions
    assert decision.choices == ()
    assert decision.note == "This player does not tell probabilities."
    assert decision.player == "remote:gpt"
    assert recorder.recorded("one").prompt(decision).startswith("FRANCE")


def test_a_prompt_that_does_not_fit_is_a_note() -> None:
    policy, _ = peaked_policy()

    class Narrow:
        def text(self, view: object, seat: str) -> str:
            raise EngineError("the shortest prompt for FRANCE has 900 tokens")

        ids = section_tokens = text

    policy.tokens.prompts = Narrow()
    recorder = DecisionRecorder()
    position = DiplomacyGame(1901).position
    decision = Decision(("A PAR H", "A MAR H", "F BRE H"))
    asyncio.run(recorder.record("policy", policy, position, "FRANCE", decision, played=False))
    (found,) = recorder.recorded("one").decisions
    assert (found.choices, found.prompt) == ((), ())
    assert found.note == "the shortest prompt for FRANCE has 900 tokens"


@pytest.mark.parametrize("error", [MemoryError("no memory"), RuntimeError("out of memory"), EngineError("no adapter")])
def test_a_record_never_ends_a_game(error: Exception) -> None:
    class Failing:
        async def specialist(self, power: str) -> object:
            raise error

        def read(self, position: object, power: str) -> object:
            raise error

        async def act(self, position: object, power: str, seed: int) -> Decision:
            return Decision(("A PAR H",))

    recorder = DecisionRecorder()
    position = DiplomacyGame(1901).position
    assert asyncio.run(recorder.watched("demo", Failing()).act(position, "FRANCE", 1)).actions == ("A PAR H",)
    (found,) = recorder.recorded("one").decisions
    assert (found.choices, found.prompt, found.note) == ((), (), str(error))


def test_an_earlier_games_decisions_do_not_stay_beside_a_new_game(tmp_path: Path) -> None:
    recorder = DecisionRecorder()
    played(recorder)
    save_decisions(tmp_path / "game.json", recorder)
    packed = decisions_path(tmp_path / "game.json").read_bytes()
    assert json.loads(gzip.decompress(packed))["game_id"] == "game"
    save_decisions(tmp_path / "game.json", DecisionRecorder())
    assert not decisions_path(tmp_path / "game.json").exists()
    save_decisions(tmp_path / "game.json", None)


def test_unknown_powers_are_refused(tmp_path: Path) -> None:
    from cluster.evaluation.replay import write_replay

    with pytest.raises(RunError, match="there is no power 'SPAIN'"):
        write_replay([tmp_path / "game.json"], tmp_path / "page.html", seats=["Spain"])
