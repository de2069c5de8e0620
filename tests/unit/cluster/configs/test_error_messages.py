"""A wrong value is told in our own words, with what to give instead and what is to blame for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core.core_schema import ErrorType

from cluster.configs.error_messages import as_toml, fault_of, table_model
from cluster.configs.loader import load_config, load_sections
from cluster.configs.schema import Config
from cluster.errors import ConfigError


def refusal(*overrides: str, source: str | Path = "smoke") -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(source, overrides)
    return str(caught.value)


GROUP_KEYS = '["country+lineup", "country"]'
PAIRS = '[["ENGLAND", "TURKEY"], ["FRANCE", "ITALY"]]'
REWARD = "{ center_change = 0.5, dipnet = 0.5 }"


@pytest.mark.parametrize(
    ("override", "message"),  # which is --set, the override, and this; where it begins with --set it is all
    [
        ("learner.learning_rate=abc", "give a number above 0"),
        ("learner.epochs=0", "give a whole number of at least 1"),
        ("learner.threads=9999", "give a whole number from 1 to 4096"),
        ("learner.discount=2", "give a number above 0 and at most 1"),
        ("grouping.cagrad_c=1", "give a number of at least 0 and below 1"),
        ("grouping.running_baseline_decay=1.0", "give a number above 0 and below 1"),
        ("grouping.min_group_weight=nan", "give a finite number above 0 and at most 1"),
        ("learner.bf16=2", "give true or false"),
        ("policy.architecture=gpt2", "give one of qwen3, llama"),
        ("policy.architecture=1", "give one of qwen3, llama"),
        ("grouping.keys=country", f"give a list, e.g. {GROUP_KEYS}"),
        ("grouping.keys={a=1}", f"--set grouping.keys: give a list, e.g. {GROUP_KEYS}"),
        (
            "policy.lora_target_modules=[]",
            '--set policy.lora_target_modules: give a list that is not empty, e.g. ["q_p',
        ),
        (
            "grouping.keys=[1]",
            f'--set grouping.keys: grouping.keys.0: give a text, in quotes: "1", e.g. grouping.keys = {GROUP_KEYS} '
            "(got 1)",
        ),
        (
            "alignment.pairs=[['FRANCE']]",
            f"--set alignment.pairs: alignment.pairs.0: give a list of 2 texts, e.g. alignment.pairs = {PAIRS}",
        ),
        (
            "alignment.pairs=[['FRANCE', 1]]",
            '--set alignment.pairs: alignment.pairs.0.1: give a text, in quotes: "1", e.g. alignment.pairs = '
            f"{PAIRS} (got 1)",
        ),
        ("alignment.pairs=FRANCE", f"give a list, e.g. {PAIRS}"),
        ("game.reward=win", f"give a table, e.g. {REWARD}"),
        ("game.reward.win=much", f"give a number, e.g. game.reward = {REWARD}"),
        ("metrics.host=''", "give a text that is not empty"),
        ("metrics.trackers=['mlflow']", "--set metrics.trackers: metrics.trackers.0: give one of tensorboard, wandb, "),
        (
            "opponents.remotes.x=5",
            "--set opponents.remotes.x: give a table with the keys base_url, model, api_key_variable, ..., e.g. oppo",
        ),
        (
            "opponents.remotes.x.model=m",
            "--set opponents.remotes.x.model: opponents.remotes.x.base_url: it is not set (URL of the API, up to",
        ),
        ("run.name=a/b", "a run's name is letters, digits, dots, - and _, and begins with a letter or a digit"),
        (
            "learner.learningrate=1",
            "--set learner.learningrate: there is no such key; did you mean learner.learning_rate?",
        ),
        ("bad.key=1", "--set bad.key: bad: there is no such section; the sections are alignment, evaluation, game, "),
        ("policy.head_dim=33", "head_dim must be one of 32, 64, 80, 96, 112, 128"),
        ("redis.url=5", "--set redis.url: give a text"),
        ('redis.urls=["redis://a:1", "redis://u@a:1"]', "--set redis.urls: it names a server twice"),
        ("learner.updates.x=3", "--set learner.updates.x: learner.updates holds 4 and has no keys of its own"),
    ],
)
def test_every_kind_of_wrong_value_is_told_with_what_to_give_instead(override: str, message: str) -> None:
    expected = message if message.startswith("--set") else f"--set {override}: {message}"
    assert refusal(override).startswith(expected)


def test_the_file_is_blamed_for_its_own_faults_and_an_override_for_the_ones_it_makes(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[learner]\nlearning_rate = "abc"\n')
    fault = "learner.learning_rate: give a number above 0 (got 'abc')"
    assert refusal(source=file) == f"{file}: {fault}"
    assert refusal("learner.updates=3", source=file) == f"{file}: {fault}"
    with pytest.raises(ConfigError, match="give a number above 0"):
        load_sections(file, "learner")
    assert load_config(file, ["learner.learning_rate=0.1"]).learner.learning_rate == 0.1
    file.write_text("[learner]\nepisodes_per_update = 57\n")
    assert refusal("learner.updates=3", source=file).startswith(f"{file}: learner.episodes_per_update (57) must be a")
    file.write_text("learner = 5\n")
    assert refusal(source=file).startswith(f"{file}: learner: give a table with the keys ")


def test_of_several_overrides_those_that_make_the_fault_are_blamed() -> None:
    assert refusal("learner.updates=3", "learner.episodes_per_update=57", "run.seed=1").startswith(
        "--set learner.episodes_per_update=57: learner.episodes_per_update (57) must be a multiple of "
    )
    # smoke has blocks of 2 episodes and 14 in an update: 4 and 20 agree, 4 and 14 do not.
    load_config("smoke", ["rollout.num_generations=4", "learner.episodes_per_update=20"])
    assert refusal("learner.episodes_per_update=18", "rollout.num_generations=4").startswith(
        "--set rollout.num_generations=4: learner.episodes_per_update (18) must be a multiple of "
    )
    assert refusal("learner.epochs=0", "learner.epochs=-1").startswith("--set learner.epochs=-1: ")
    assert refusal("learner.epochs=0", "learner.updates=0", "learner.epochs=2").startswith("--set learner.updates=0: ")
    together = refusal("learner.loss_type=cispo", "learner.epsilon_high=5.0", "learner.delta=9.0")
    assert together.startswith("--set learner.loss_type=cispo, --set learner.delta=9.0: learner: delta has no place")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"learner.updates": "2"}, "override learner.updates='2': give a whole number from 1 to 1000000000"),
        ({"grouping.keys": (1,)}, 'override grouping.keys: grouping.keys.0: give a text, in quotes: "1"'),
        ({"run.seed": 10**5000}, "override run.seed=a number of many digits: "),
        ({"redis.url": "redis://:secret"}, "override redis.url: "),
        ({"learner.updates": 2, "learner.epochs": 0}, "override learner.epochs=0: give a whole number of at least 1"),
    ],
)
def test_an_override_from_python_is_blamed_by_its_name(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("smoke", overrides)
    assert str(caught.value).startswith(message)
    assert "secret" not in str(caught.value)


def test_overrides_do_not_change_one_another(tmp_path: Path) -> None:
    overrides = ["opponents.members={random=1.0}", "opponents.members.greedy=2.0"]
    members = {"random": 1.0, "greedy": 2.0}
    assert load_config("smoke", overrides).opponents.members == members
    assert "bot is called 'x'" in refusal(*overrides, "opponents.members.x=1.0")


WRONG: tuple[Any, ...] = (True, -1, 10**17, 1.5, -0.5, float("nan"), "x y", [], ["x"], [[1]], [["a", "b"]], {"a": []})
FOREIGN = (
    *("input should", "should be", "valid integer", "valid number", "valid string", "valid boolean", "value error"),
    *("field required", "validation", "extra inputs", "pydantic", "tuple", "dictionary", "dict_type"),
)


def keys_of(model: type[BaseModel], path: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        where, inner = f"{path}{name}", field.annotation
        yield where
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from keys_of(inner, f"{where}.")
        elif (table := table_model(inner)) is not None:
            yield from keys_of(table, f"{where}.gpt.")


KEYS = [key for key in keys_of(Config) if "." in key]


def toml_text(value: Any) -> str:
    return "nan" if value != value else as_toml(value)


@pytest.mark.parametrize("section", [*Config.model_fields])
def test_no_word_of_the_checking_library_reaches_the_user(section: str) -> None:
    keys, refused = [key for key in KEYS if key.startswith(f"{section}.")], 0
    assert keys
    for key in keys:
        for value in WRONG:
            try:
                load_config("smoke", [f"{key}={toml_text(value)}"])
            except ConfigError as error:
                refused += 1
                message = str(error)
                assert message.startswith(f"--set {key}"), message
                assert len(message) <= 500, message
                assert not [word for word in FOREIGN if word in message.lower()], message
    assert refused > 3 * len(keys)


def structures(schema: Mapping[str, Any], whole: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, inner in schema["properties"].items():
        if "$ref" in inner:
            yield from structures(whole["$defs"][inner["$ref"].rpartition("/")[2]], whole, f"{path}{name}.")
        elif inner.get("type") in ("array", "object"):
            yield f"{path}{name}", inner.get("examples")


def test_every_list_and_table_has_an_example_that_can_be_set() -> None:
    whole = Config.model_json_schema()
    found = dict(structures(whole, whole, ""))
    assert {"grouping.keys", "game.reward", "opponents.remotes"} <= found.keys()
    for key, examples in found.items():
        assert examples, key
        config = load_config("smoke", [f"{key}={as_toml(examples[0])}"])
        section, name = key.split(".")
        stored = json.loads(config.model_dump_json())[section][name]
        assert stored == examples[0] or stored.keys() == examples[0].keys()


def test_a_kind_of_error_that_no_setting_has_today_is_told_in_our_words_too() -> None:
    kinds = set(get_args(ErrorType)) - {"value_error", "extra_forbidden", "missing"}
    assert len(kinds) > 50
    for kind in kinds:
        error: Any = {"type": kind, "loc": ("learner", "updates"), "msg": "Input should be something", "input": 0}
        assert str(fault_of(error)).startswith("learner.updates: give a "), kind
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(int).validate_python("x")
    assert str(fault_of(caught.value.errors()[0], section="run")).startswith(
        "run: give a table with the keys name, seed"
    )
