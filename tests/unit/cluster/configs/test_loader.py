"""The configuration: strict, with helpful errors, and unchanged by a round trip."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.configs.loader import CONFIGS, dump_config, load_config, load_sections
from cluster.configs.reference import config_reference
from cluster.configs.schema import Config
from cluster.errors import ConfigError

SHIPPED = sorted(file.stem for file in CONFIGS.glob("*.toml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_configs_load_and_survive_a_round_trip(name: str, tmp_path: Path) -> None:
    config = load_config(name)
    copy = tmp_path / "config.toml"
    copy.write_text(dump_config(config))
    assert load_config(copy) == config
    assert load_config(copy).digest == config.digest


def test_a_folder_of_the_same_name_does_not_hide_a_shipped_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster").mkdir()  # as in a checkout
    assert load_config("cluster").run.name == "cluster"


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("learner.learningrate=1", "did you mean learner.learning_rate?"),
        ("lerner.updates=1", "did you mean learner?"),
        ("learner.learning_rate=-1", "--set learner.learning_rate=-1: give a number above 0"),
        ("learner.episodes_per_update=57", "multiple of rollout.num_generations"),
        ("learner.top_up_episodes=1", "less than one block"),
        ("game.reward={centres=1.0}", "did you mean 'centers'?"),
        ("policy.head_dim=33", "head_dim must be one of"),
        ("opponents.members={dumbot=1.0}", "dumbbot"),
        ("evaluation.against=['dumbot']", "dumbbot"),
        ("grouping.keys=['country+phse']", "there are task, country, lineup, start_year"),
        ("grouping.keys=['phase']", "add country+"),
        ("grouping.keys=['country+return']", "allow_outcome_keys"),
        ("grouping.keys=['country+own_centers:4']", "'own_centers', which changes within an episode"),
        ("grouping.cluster_features=['own_centers']", "'own_centers', which changes within an episode"),
        ("grouping.cluster_features=['rating']", "'cluster_features' names 'rating', and there is no such fact"),
        ("learner.returns=episode", "under learner.returns = 'episode'"),
        ("grouping.opponent_adjusted=true", "in other units (game.reward pays center_change, learner.returns = 'per"),
        ("opponents.max_members=9", "above max_snapshots (8)"),
        ("learner.updates.x=3", "has no keys of its own"),
        ("rollout.block_timeout_s=inf", "give a finite number above 0"),
        ("nonsense", "section.key=value"),
        ("learner.updates=5\nseed=3", "give one key at a time"),
    ],
)
def test_a_wrong_key_or_value_is_one_line_that_says_what_to_do(override: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("smoke", [override])
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_opponent_adjusted_is_refused_for_returns_in_other_units_or_without_the_fact() -> None:
    shares = ["game.reward={sum_of_squares=2.0, centers=0}", "grouping.opponent_adjusted=true"]
    keys = "grouping.keys=['country']"
    for returns in (["learner.returns=episode", keys], ["learner.discount=1.0"]):
        with pytest.raises(ConfigError, match="episodes do not carry expected_return"):
            load_config("smoke", [*shares, *returns])
    for returns in (["learner.returns=segment"], ["learner.discount=0.9"]):
        with pytest.raises(ConfigError, match="in other units"):
            load_config("smoke", [*shares, *returns])


def test_overrides_reach_nested_values_and_bare_words_are_strings() -> None:
    config = load_config("smoke", ["learner.updates=3", "run.name=other", "game.reward.win=2.5"])
    assert config.learner.updates == 3
    assert config.run.name == "other"
    assert config.game.reward["win"] == 2.5


def test_a_missing_or_damaged_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"shipped configs: .*laptop"):
        load_config(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[run\nname=")
    with pytest.raises(ConfigError, match="cannot be read as TOML"):
        load_config(broken)


def test_every_key_has_a_description_in_the_reference() -> None:
    text = config_reference(Config)
    assert "# None" not in text
    for section in Config.model_fields:
        assert f"[{section}]" in text
    assert "removes the (G-1)/G shrinkage); one of mean, leave_one_out" in text
    assert "one of weighted" not in text  # that description names every choice already


def test_help_and_config_do_not_import_torch_or_ray() -> None:
    code = (
        "import sys, cluster.cli.app, cluster.configs.loader; cluster.configs.loader.load_config('laptop');"
        "print(sorted({'torch', 'ray', 'transformers', 'vllm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_a_mapping_and_a_configuration_are_sources_too() -> None:
    config = load_config("smoke", ["learner.updates=2", "policy.path=models/mine", "grouping.keys=['country']"])
    by_mapping = load_config(
        "smoke", {"learner.updates": 2, "policy.path": Path("models/mine"), "grouping.keys": ("country",)}
    )
    assert by_mapping == config
    assert load_config({"learner": {"updates": 2}}) == load_config({}, ["learner.updates=2"])
    assert load_config(config) is config
    assert load_config(config, {"policy.path": None}).policy.path is None
    seeded = load_config(config, ["run.seed=3"])
    assert seeded.run.seed == 3
    assert load_config(seeded, {"run.seed": None}) == config
    remote = {"base_url": "http://127.0.0.1:8000/v1", "model": "m"}
    assert load_config({}, {"opponents.remotes.friend": remote}).opponents.remotes["friend"].model == "m"


def test_a_source_is_not_changed() -> None:
    source = {"learner": {"updates": 2}}
    assert load_config(source, {"learner.updates": 3, "learner.learning_rate": None}).learner.updates == 3
    assert source == {"learner": {"updates": 2}}


@pytest.mark.parametrize(
    ("source", "overrides", "hint"),
    [
        (
            {"learner": {"updtes": 2}},
            (),
            "the configuration: learner.updtes: there is no such key; did you mean learner.updates?",
        ),
        ({}, {"learner.updates": "2"}, "learner.updates"),
        ({}, {"updates": 2}, "override 'updates' is not section.key"),
        ({"learner": 3}, {"learner.updates": 2}, "override learner.updates=2: learner holds 3 and has no keys"),
        (5, {}, "a configuration is a file, the name of a shipped one, a mapping or a Config, not int"),
        (None, {}, "a configuration is a file"),
        ({}, 5, "give overrides as a list or a mapping, not int"),
        ("smoke", [1], 'an override is a text such as "learner.learning_rate=1e-4", not int'),
        ({}, "learner.updates=2", 'give overrides as a list, such as ["learner.learning_rate=1e-4"]'),
    ],
)
def test_what_is_wrong_with_a_mapping_is_said_in_one_line(source: Any, overrides: Any, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(source, overrides)
    assert hint in str(error.value)


def test_the_world_follows_the_section_of_a_changed_copy_and_is_no_section(tmp_path: Path) -> None:
    config = load_config("smoke")
    assert config.world.settings == config.game
    changed = config.model_copy(update={"game": config.game.model_copy(update={"until_year": 1950})})
    assert changed.world.settings.until_year == 1950
    assert [name for name, _ in config] == list(Config.model_fields)
    (tmp_path / "config.toml").write_text(dump_config(changed))
    assert load_sections(tmp_path / "config.toml", "game").world.settings.until_year == 1950
