"""What a world gets for nothing: the defaults of ``World``, ``Game`` and ``Language``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from services.environments.environment import RatingScale, World
from services.environments.kuhn.world import Kuhn
from services.environments.playing import Answer, Defect, Game, Result, Slot, Step, weigh
from services.environments.settings import GamesPerRole, ImitationSettings, NoSettings
from services.environments.word_problems.play.settings import WordProblemSettings
from services.environments.word_problems.world import WordProblems
from tests.unit.services.environments.tiny_world import SEATS, Tiny, TinyLanguage

WORLDS = [Tiny(NoSettings()), Kuhn(NoSettings()), WordProblems(WordProblemSettings())]
TINY = WORLDS[0]


def test_measured_names_roles_measures_and_opponents() -> None:
    measured = TINY.measured
    assert (measured.role_name, measured.roles, measured.opponents) == ("chair", SEATS, 2)
    assert measured.others("high") == "high"
    assert measured.by_role == "by_chair"
    assert WordProblems(WordProblemSettings()).measured.opponents == 0


def test_the_main_measure_is_what_is_paid() -> None:
    assert TINY.reward_weights == {"points": 1.0}
    assert weigh({"points": 2.0, "other": 5.0}, TINY.reward_weights) == 2.0


def test_all_roles_are_alike_for_ratings() -> None:
    scale = TINY.rating_scale
    assert scale == RatingScale.even(SEATS, TINY.bots)
    assert set(scale.worth.values()) == {0.0}
    assert sum(scale.base_shares.values()) == pytest.approx(1)
    first = next(iter(TINY.bots))  # the yardstick
    assert scale.anchors == {f"bot/{first}": dict.fromkeys(SEATS, 1000.0)}


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_probes_are_views_of_two_roles_that_have_prompts(world: World) -> None:
    probes = world.probes(world.roles)
    assert [seat for _, seat in probes] == list(world.roles[:2])
    assert len(world.probes(world.roles[:1])) == 1
    for view, seat in probes:
        assert world.language.prompt(view, seat)
    again = world.probes(world.roles)
    assert again == probes


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_results_have_every_measure_of_every_seat(world: World) -> None:
    role = world.roles[0]
    game = world.new_game(world.starts().draw(role, 1), role, 1)
    while not game.is_done:
        game.step(dict.fromkeys(game.to_act(), ()))
    result = game.result()
    seats = set(world.roles) if world.has_opponents else {role}
    assert set(result.outcomes) == seats
    assert (result.standing is not None) == world.has_opponents
    for measure in world.measured.trained:
        values = [outcome[measure.outcome] for outcome in result.outcomes.values()]
        assert measure.low <= min(values) <= max(values) <= measure.high


def test_bots_are_made_by_name() -> None:
    assert TINY.make_bot("high").actions("red", "A", 0) == ("high",)
    with pytest.raises(ValueError, match="bot: no bot is called 'low'; there are random, high"):
        TINY.make_bot("low")


@pytest.mark.parametrize("key", ["against", "final_against"])
def test_anchors_of_evaluations_are_bots(key: str) -> None:
    TINY.check_evaluation(GamesPerRole(**{key: ("high",)}))
    with pytest.raises(ValueError, match=rf"evaluation\.{key}: no bot is called 'low'"):
        TINY.check_evaluation(GamesPerRole(**{key: ("low",)}))


def test_a_teacher_is_a_bot_where_there_is_anything_to_imitate() -> None:
    TINY.check_imitation(ImitationSettings(teacher="nobody"))
    TINY.check_imitation(ImitationSettings(games=1, teacher="high"))
    with pytest.raises(ValueError, match=r"imitation\.teacher: no bot is called 'nobody'"):
        TINY.check_imitation(ImitationSettings(games=1, teacher="nobody"))
    settings = ImitationSettings(games=1, teacher="high")
    assert TINY.make_teacher(settings, TINY.new_game("red", "A", 0)).actions("red", "B", 0) == ("high",)
    assert TINY.teaching(settings) == "playing games of high"
    assert TINY.as_imitated(settings) is TINY


def test_games_are_not_saved_and_so_not_read() -> None:
    assert TINY.saved_game(TINY.new_game("red", "A", 0), None, 0, "", "") is None
    assert TINY.saved_games(ImitationSettings()) == ()
    with pytest.raises(NotImplementedError, match="tiny saves no games"):
        TINY.saved_demonstrations(ImitationSettings(), Path("x"))


def test_opposition_is_said_in_words() -> None:
    assert TINY.opposition("random") == "against random"
    assert WordProblems(WordProblemSettings()).opposition("held_out") == "on held_out"


class Plain(Game):
    is_done = False

    def to_act(self) -> tuple[str]:
        return ("A",)

    def view(self, seat: str) -> Any:
        return None

    def step(self, actions: Any) -> Step:
        return Step({})

    def result(self) -> Result:
        return Result({})


def test_a_game_without_facts_or_phases_has_none() -> None:
    game = Plain()
    assert (game.phase, game.start_facts("A"), game.facts("A")) == ("", {}, {})
    assert Result({}).standing is None


class Pairs(TinyLanguage):
    """An answer of two lines."""

    rules = "Write two words."

    def slots(self, view: str, seat: str) -> tuple[Slot, ...]:
        return (Slot(("go high", "go low"), (None, None)), Slot(("stop",), (None,)))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("go high\nstop", Answer(("go high", "stop"))),
        ("\n  GO \t High \n\n stop\n", Answer(("go high", "stop"))),
        ("go up\nstop", Answer(("stop",), (Defect("go up", "illegal"),))),
        ("go low", Answer(("go low",), (Defect("stop", "missing"),))),
        ("", Answer((), (Defect("go high", "missing"), Defect("stop", "missing")))),
        ("go low\nstop\nmore", Answer(("go low", "stop"), (Defect("more", "too_many"),))),
    ],
)
def test_free_text_is_read_line_by_line(text: str, answer: Answer) -> None:
    assert Pairs().parse(text, "red", "A") == answer


def test_a_chat_prompt_is_rules_and_position() -> None:
    sections = Pairs().sections("red", "A")
    assert [(each.name, each.role, each.text) for each in sections] == [
        ("rules", "system", "Write two words."),
        ("position", "user", "A red"),
    ]
    assert Pairs().sections("red", "A", thinking=True)[0].text == "Write two words. Think before you answer."
    assert Pairs().written(("go low", "stop"), "red", "A") == ("go low", "stop")
    assert Pairs().longest_answers() == ()
