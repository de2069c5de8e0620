"""The configuration of each world: its own sections and defaults, and what is said of another world's keys."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cluster.configs.loader import dump_config, load_config, load_sections
from cluster.configs.schema import Config, config_class, config_class_of, config_from_json, world_defaults
from cluster.configs.sections import TaskSettings
from cluster.errors import ConfigError, RunError
from cluster.runs.folder import RunFolder
from grpo_core.advantages.grouping import Sample, groups_of, levels_of
from services.environments.kuhn.world import Kuhn
from services.environments.registry import load_world, world_names
from services.environments.settings import GamesPerRole, ImitationSettings, NoSettings
from services.environments.word_problems.play.settings import (
    WordProblemEvaluation,
    WordProblemImitation,
    WordProblemSettings,
)
from tests.unit.services.environments.tiny_world import Tiny

TINY = "tests.unit.services.environments.tiny_world:Tiny"
WORLDS = (*world_names(), TINY)
CHANGES: dict[str, list[str]] = {
    "diplomacy": ["game.until_year=1903", "grouping.keys=['country']"],
    "kuhn": ["grouping.keys=['seat']", "evaluation.games_per_role=3", "opponents.members={random=2.0}"],
    "word_problems": ["game.families=['ages']", "game.reward={form=1.0}", "evaluation.samples=3", "imitation.games=5"],
    TINY: ["grouping.keys=['chair+colour', 'chair']", "evaluation.against=['high']", "learner.learning_rate=1e-2"],
}


def config_of(name: str, *overrides: str) -> Config:
    return load_config({"task": {"name": name}}, overrides)


def refusal(name: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config_of(name, *overrides)
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_each_world_has_a_class_with_its_own_sections() -> None:
    assert config_class("diplomacy") is Config
    assert config_class("kuhn") is config_class("kuhn")
    kuhn, problems, tiny = config_of("kuhn"), config_of("word_problems"), config_of(TINY)
    for config, sections in (
        (kuhn, (NoSettings, GamesPerRole, ImitationSettings)),
        (problems, (WordProblemSettings, WordProblemEvaluation, WordProblemImitation)),
        (tiny, (NoSettings, GamesPerRole, ImitationSettings)),
    ):
        assert isinstance(config, Config)
        assert tuple(map(type, (config.game, config.evaluation, config.imitation))) == sections
    assert isinstance(kuhn.world, Kuhn)
    assert isinstance(tiny.world, Tiny)
    assert config_of(TINY).task == TaskSettings(name=TINY)


@pytest.mark.parametrize("name", WORLDS)
def test_the_class_alone_gives_what_an_empty_file_gives(name: str) -> None:
    assert config_class(name)() == config_of(name)


def test_group_keys_and_words_follow_the_world() -> None:
    assert config_of("kuhn").grouping.keys == ("seat+card", "seat")
    assert config_of("word_problems").grouping.keys == ("variant+question", "variant")
    assert config_of(TINY).grouping.keys == ("chair",), "without any of its own: the role alone"
    for name in WORLDS:
        grouping, role = config_of(name).grouping, load_world(name).role_name
        assert {grouping.role_name, grouping.weight_key, grouping.surgery_key} == {role}
    assert Config().grouping.keys == ("country+phase", "country+segment", "country")


def test_a_world_s_defaults_give_way_to_the_file_s() -> None:
    assert world_defaults(load_world("word_problems"))["learner"] == {"returns": "episode"}
    assert config_of("word_problems").learner.returns == "episode"
    assert config_of("word_problems", "learner.updates=3").learner.returns == "episode"
    assert config_of("word_problems", "learner.returns=per_phase").learner.returns == "per_phase"
    assert config_of("kuhn").learner.returns == Config().learner.returns
    assert config_of("kuhn", "grouping.min_group_size=9").grouping.keys == ("seat+card", "seat")
    assert config_of("kuhn", "grouping.keys=['seat']").grouping.role_name == "seat"


@pytest.mark.parametrize(
    ("name", "key", "names"),
    [
        ("kuhn", "seat+crd", "there are task, seat, lineup, card, policy_opponents"),
        ("kuhn", "country+card", "would mix roles in one baseline; add seat+"),
        ("kuhn", "seat+phase", "names 'phase'"),
        ("word_problems", "variant+lineup", "there are task, variant, question, family, difficulty"),
        ("word_problems", "variant+exact_match", "names 'exact_match'"),
        ("word_problems", "variant+answer", "names 'answer'"),
        (TINY, "chair+color", "there are task, chair, lineup, colour, policy_opponents, mood"),
        (TINY, "chair+points", "names 'points'"),
        ("diplomacy", "country+card", "names 'card'"),
    ],
)
def test_group_keys_name_facts_that_the_world_has(name: str, key: str, names: str) -> None:
    message = refusal(name, f"grouping.keys=['{key}', '{load_world(name).role_name}']")
    assert "grouping" in message
    assert names in message


def test_facts_of_turns_group_turns_alone() -> None:
    keys = "grouping.keys=['chair+mood', 'chair']"
    assert config_of(TINY, keys).grouping.keys == ("chair+mood", "chair")
    assert "names 'mood', and there is no such fact under learner.returns = 'episode'" in refusal(
        TINY, keys, "learner.returns=episode"
    )


@pytest.mark.parametrize(
    ("name", "override", "hint"),
    [
        ("word_problems", "game.until_year=1903", "the keys are curriculum, difficulties, families, follow_ups, gsm8k"),
        ("word_problems", "game.familys=['ages']", "did you mean game.families?"),
        ("word_problems", "game.families=['agse']", "there is no family 'agse'; did you mean 'ages'?"),
        ("word_problems", "game.variants=['stepbystep']", "did you mean 'step_by_step'?"),
        ("word_problems", "game.variants=[]", "game.variants"),
        ("word_problems", "game.families=['ages', 'ages']", "it names a family twice"),
        ("word_problems", "game.difficulties=[6]", "difficulties are different whole numbers from 1 to 5"),
        ("word_problems", "game.difficulties=[1, 1]", "difficulties are different whole numbers from 1 to 5"),
        ("word_problems", "game.follow_ups=9", "give a whole number from 0 to 8"),
        ("word_problems", "game.follow_ups=4", "max_completion_length (once for each of 5 questions) must leave room"),
        ("word_problems", "game.reward={exact=1.0}", "did you mean 'exact_number'?"),
        ("word_problems", "game.reward={form=0.0}", "every reward would be 0"),
        ("word_problems", "evaluation.problms=3", "did you mean evaluation.problems?"),
        ("word_problems", "evaluation.games_per_role=3", "there is no such key"),
        ("word_problems", "evaluation.against=['gsm8k']", "the set gsm8k needs evaluation.gsm8k"),
        ("word_problems", "evaluation.against=['random']", "there are held_out, unseen_wording, gsm8k"),
        ("word_problems", "imitation.teacher=dumbbot", "imitation.teacher"),
        ("word_problems", "imitation.until_year=1903", "there is no such key"),
        ("kuhn", "game.until_year=1903", "there is no such key"),
        ("kuhn", "evaluation.games_per_country=3", "did you mean evaluation.games_per_role?"),
        ("kuhn", "evaluation.against=['dumbbot']", "no bot is called 'dumbbot'; there are random"),
        ("kuhn", "opponents.members={dumbbot=1.0}", "opponents.members: no bot is called 'dumbbot'; there are random"),
        ("kuhn", "grouping.role_name=country", "grouping.role_name must be 'seat', the word of this world"),
        ("diplomacy", "game.families=['ages']", "there is no such key"),
        ("diplomacy", "game.reward={speaking=1.0}", "speaking counts in games with press; set press_rounds"),
        ("diplomacy", "evaluation.games_per_role=3", "did you mean evaluation.games_per_country?"),
        (TINY, "opponents.members={low=1.0}", "no bot is called 'low'; there are random, high"),
    ],
)
def test_keys_and_values_are_those_of_the_world(name: str, override: str, hint: str) -> None:
    message = refusal(name, override)
    assert message.startswith("--set ")
    assert hint in message


def test_prompts_repeat_thoughts_with_the_answers() -> None:
    chat = ["policy.path=x", "policy.prompt=chat", "policy.context_length=1300", "game.follow_ups=2"]
    config_of("word_problems", *chat, "inference.max_completion_length=100", "inference.thinking_tokens=200")
    said = refusal("word_problems", *chat, "inference.max_completion_length=100", "inference.thinking_tokens=512")
    assert "inference.thinking_tokens and inference.max_completion_length (once for each of 3 questions)" in said


def test_credit_for_talk_needs_probabilities_under_a_mask() -> None:
    wanted = "game.press_rounds=1", "game.reward={speaking=1.0}", "inference.engine=torch"
    config_of("diplomacy", *wanted)
    for needed, *changed in (
        ('inference.engine = "torch"', "inference.engine=vllm"),
        ('inference.engine = "torch"', "inference.engine=auto"),
        ("inference.decoding other than free", "inference.decoding=free"),
        ("policy.specialists = false", "policy.use_peft=true", "policy.specialists=true"),
    ):
        assert f"the reward part speaking needs {needed}" in refusal("diplomacy", *wanted, *changed)


def test_notes_are_of_worlds_that_have_them_and_need_room_and_masks() -> None:
    room = "inference.max_completion_length=448", "policy.context_length=1024"
    assert "policy.notes: the world kuhn has no notes" in refusal("kuhn", "policy.notes=true")
    assert "at least 448, for notes and orders, instead of 224" in refusal("diplomacy", "policy.notes=true")
    for wrong in ("inference.decoding=free", "policy.prompt=chat"):
        message = refusal("diplomacy", "policy.notes=true", "policy.path=x", *room, wrong)
        assert "policy.notes needs policy.prompt = notation, and inference.decoding must not be free" in message
    assert config_of("diplomacy", "policy.notes=true", *room).policy.notes
    message = refusal("kuhn", "inference.decoding=coordinated")
    assert "inference.decoding: the world kuhn has no coordinated answers" in message


def test_a_policy_from_nothing_has_no_words_for_gsm8k() -> None:
    for key in ("game", "evaluation"):
        assert f"{key}.gsm8k: the small policy knows only" in refusal("word_problems", f"{key}.gsm8k=train.jsonl")
        assert config_of("word_problems", f"{key}.gsm8k=train.jsonl", "policy.path=somewhere").policy.path


def test_specialists_are_evaluated_in_their_own_roles() -> None:
    specialists = ("policy.use_peft=true", "policy.specialists=true")
    trained = "game.variants=['step_by_step', 'short_arithmetic']"
    for key in ("against", "final_against"):
        message = refusal("word_problems", *specialists, trained, f"evaluation.{key}=['unseen_wording']")
        assert f"evaluation.{key} names 'unseen_wording', which is played as final_answer, chain_of" in message
    assert config_of("word_problems", trained, "evaluation.final_against=['unseen_wording']").evaluation.final_against
    assert config_of("word_problems", *specialists, trained).policy.specialists


def test_a_teacher_is_a_bot_of_the_world() -> None:
    message = refusal("kuhn", "imitation.games=3", "imitation.teacher=dumbbot")
    assert "imitation.teacher: no bot is called 'dumbbot'; there are random" in message
    assert config_of("kuhn", "imitation.games=3", "imitation.teacher=random").imitation.wanted
    message = refusal("diplomacy", "imitation.games=3", "imitation.against=['dumbot']")
    assert "imitation.against: no bot is called 'dumbot'" in message
    message = refusal("diplomacy", "imitation.saved_games=somewhere", "imitation.relabel=lookahed")
    assert "imitation.relabel: no bot is called 'lookahed'" in message


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("poker", "task.name: no world is called 'poker'; there are diplomacy, kuhn, word_problems"),
        ("no_such_package:WORLD", "task.name: the world no_such_package:WORLD cannot be imported: ModuleNotFoundError"),
        (TINY.replace("Tiny", "NoWorld"), "is no subclass of"),
        (TINY.replace("Tiny", "Half"), "lacks new_game, roles, language"),
    ],
)
def test_a_world_that_cannot_be_used_is_said_in_one_line(name: str, reason: str) -> None:
    message = refusal(name)
    assert reason in message
    assert message.startswith("the configuration: task.name: ")
    with pytest.raises(ConfigError, match=r"^--set task\.name") as caught:
        load_config({}, [f"task.name='{name}'"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [3, True, ["kuhn"], {"a": 1}])
def test_a_name_that_is_no_text_is_refused(value: Any) -> None:
    for task in ({"name": value}, value):
        with pytest.raises(ConfigError, match="task") as caught:
            load_config({"task": task})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", WORLDS)
def test_configurations_survive_files_and_json(name: str, tmp_path: Path) -> None:
    for overrides in ([], CHANGES[name]):
        config = config_of(name, *overrides)
        (tmp_path / "config.toml").write_text(dump_config(config))
        copy = load_config(tmp_path / "config.toml")
        assert copy == config
        assert type(copy) is type(config)
        assert copy.digest == config.digest
        again = config_from_json(config.model_dump_json())
        assert again == config
        assert type(again) is config_class(name)
        assert again.world.roles == config.world.roles
        alone = load_sections(tmp_path / "config.toml", "game", "evaluation")
        assert (alone.game, alone.evaluation) == (config.game, config.evaluation)
    assert config_of(name, *CHANGES[name]).digest != config_of(name).digest


def test_the_tables_of_a_file_say_which_class_they_have() -> None:
    assert config_class_of({}) is Config
    assert config_class_of({"task": {"name": "kuhn"}}) is config_class("kuhn")
    assert (
        config_class_of({"task": {}})
        is config_class_of({"task": 3})
        is config_class_of({"task": {"name": 3}})
        is Config
    )


def test_a_configuration_of_one_world_is_none_of_another() -> None:
    config = load_config("kuhn")
    assert load_config(config, ["learner.updates=3"]).task == config.task
    with pytest.raises(ConfigError, match=r"^--set task\.name=word_problems: ") as caught:
        load_config(config, ["task.name=word_problems"])
    assert "\n" not in str(caught.value)
    assert type(load_config({}, ["task.name=kuhn"])) is config_class("kuhn")


@pytest.mark.parametrize("name", ["kuhn", "word_problems"])
def test_a_resumed_run_keeps_its_world(name: str, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.open(config_of(name), resume=False)
    (folder.checkpoints / "0").mkdir(parents=True)
    (folder.checkpoints / "0" / "manifest.json").touch()
    assert folder.stored_config() == config_of(name)
    assert folder.resumed_config(["learner.updates=40"]).learner.updates == 40
    other = config_of("word_problems" if name == "kuhn" else "kuhn", f"run.name={folder.stored_config().run.name}")
    with pytest.raises(RunError, match="task cannot change when a run is resumed"):
        folder.check_resumable(other)


def test_free_text_is_what_a_world_without_masks_writes() -> None:
    assert config_of("word_problems").writes_free_text
    assert not config_of("kuhn").writes_free_text
    assert config_of("kuhn", "inference.decoding=free").writes_free_text
    press = load_config("press")
    assert not press.writes_free_text
    chat = press.policy.model_copy(update={"prompt": "chat"})
    assert press.model_copy(update={"policy": chat}).writes_free_text, "its letters have no mask"
    assert config_of("kuhn").policies_per_version == 1


MIXED = ['game.scenarios=["opening"]', "game.scenario_share=0.3"]


@pytest.mark.parametrize(
    ("keys", "refused"),
    [
        (None, "country+phase"),  # the default
        (["country+fork", "country+phase"], "country+phase"),  # whose baseline is made from the scenarios' games too
        (["country+scenario", "country"], "country"),
        (["country+scenario+phase", "country+auto"], "country+auto"),
    ],
)
def test_keys_that_would_compare_scenarios_with_whole_games_are_refused(keys: list[str] | None, refused: str) -> None:
    given = [] if keys is None else [f"grouping.keys={json.dumps(keys)}"]
    with pytest.raises(ConfigError, match=f"and '{re.escape(refused)}' would compare their returns") as caught:
        load_config("laptop", [*MIXED, *given])
    assert f"'{refused}+scenario'" in str(caught.value)


@pytest.mark.parametrize(
    "keys", [["country+scenario+phase", "country + scenario"], ["country+fork+phase", "country+scenario"]]
)
def test_scenarios_and_whole_games_share_no_baseline(keys: list[str]) -> None:
    grouping = load_config("laptop", [*MIXED, f"grouping.keys={json.dumps(keys)}"]).grouping
    whole = {"country": "FRANCE", "phase": "S1901M", "scenario": "none"}
    samples = [Sample("FRANCE", index, whole) for index in range(70)]
    samples += [Sample("FRANCE", index, {**whole, "scenario": "x", "fork": "x"}) for index in range(70, 100)]
    found = groups_of(samples, levels_of(samples, grouping), grouping.min_group_size)
    assert sorted(index for group in found for index in group.decided) == list(range(100))
    assert all(len({index < 70 for index in group.members}) == 1 for group in found)
