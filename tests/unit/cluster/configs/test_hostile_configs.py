"""A configuration from elsewhere is refused in one short line, whatever it holds and whatever kind of file it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cluster.configs.loader import CONFIGS, dump_config, load_config, load_sections
from cluster.configs.schema import config_from_json
from cluster.errors import ConfigError


def refusal(*overrides: str, source: str | Path = "smoke") -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(source, overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("metrics.port=false", "--set metrics.port=false: give a whole number from 0 to 65535"),
        ('learner.updates="5"', '--set learner.updates="5": give a whole number from 1 to 1000000000'),
        ("learner.updates=5.0", "give a whole number"),
        ("learner.learning_rate='1e-3'", "give a number above 0"),
        ("learner.learning_rate=true", "give a number above 0"),
        ("metrics.display=1", "give true or false"),
        ("metrics.display='yes'", "give true or false"),
        ("learner.gpus=true", "give a whole number from 0 to 1"),
        ("opponents.members={random=true}", "opponents.members.random: give a number from 0 to 1000000, e.g. "),
        ("opponents.members={random='2'}", "(got '2')"),
        ("run.name=5", 'give a text of 1 to 100 characters, in quotes: "5"'),
        ("evaluation.against='random'", 'give a list, e.g. ["random", "dumbbot"]'),
        (
            "alignment.pairs=[['FRANCE','ENGLAND','ITALY']]",
            "alignment.pairs.0: give a list of 2 texts",
        ),
    ],
)
def test_values_of_another_type_are_not_converted(override: str, hint: str) -> None:
    assert hint in refusal(override)


def test_whole_numbers_stand_for_fractions_and_lists_for_tuples() -> None:
    overrides = [
        "learner.max_grad_norm=2",
        "opponents.members={random=2, greedy=1}",
        "evaluation.against=['random','greedy']",
        "alignment.pairs=[['FRANCE','ENGLAND']]",
        "learner.gpus=0",
        "metrics.port=9464",
    ]
    config = load_config("smoke", overrides)
    assert config.learner.max_grad_norm == 2.0
    assert config.opponents.members == {"random": 2.0, "greedy": 1.0}
    assert config.evaluation.against == ("random", "greedy")
    assert config.alignment.pairs == (("FRANCE", "ENGLAND"),)


@pytest.mark.parametrize("name", sorted(file.stem for file in CONFIGS.glob("*.toml")))
def test_actors_read_every_shipped_config_as_it_is_sent(name: str, tmp_path: Path) -> None:
    config = load_config(name)
    assert config_from_json(config.model_dump_json()) == config
    (tmp_path / "config.toml").write_text(dump_config(config))
    assert load_sections(tmp_path / "config.toml", "inference", "learner").learner == config.learner


@pytest.mark.parametrize(
    "override",
    [
        "metrics.host=a..b",
        f"metrics.host={'a' * 64}",
        "metrics.host='h h'",
        "redis.url=redis://a..b:6379",
        "redis.url=redis://a%2e%2eb:6379",
        "redis.url=redis://h:99999",
        'redis.urls=["redis://h:1", "redis://h:99999"]',
        "redis.url=redis://[::1:6379",
        "run.ray_address=a..b:6379",
        "run.ray_address=ray://h:0",
        "run.ray_address=h:²",
        "run.ray_address=h",
    ],
)
def test_hosts_and_ports_that_no_connection_can_name_are_refused(override: str) -> None:
    key = override.partition("=")[0]
    assert key in refusal(override)


@pytest.mark.parametrize(
    "override",
    [
        "metrics.host=::1",
        "metrics.host=bücher.example",
        "run.ray_address=auto",
        "run.ray_address=ray://head_1:10001",
        "run.ray_address=[::1]:6379",
        "redis.url=rediss://u@h.example:6380/0?ssl_ca_certs=/ca.pem",
    ],
)
def test_good_hosts_are_taken(override: str) -> None:
    load_config("smoke", [override])


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("[" * 50_000, "nested too deeply"),
        ("{a=" * 50_000, "nested too deeply"),
        ("1" * 10_000, "thousands of digits"),
        ("0x" + "f" * 10_000, "a whole number is at most"),  # whose decimal digits cannot even be written
        ("{" + "a." * 50_000 + "a=1}", "more than 64 parts"),
        ("9223372036854775808", "at most 9007199254740992"),
    ],
)
def test_values_that_no_reader_can_hold_are_refused(value: str, hint: str, tmp_path: Path) -> None:
    assert hint in refusal(f"run.seed={value}")
    file = tmp_path / "config.toml"
    file.write_text(f"[run]\nseed = {value}\n")
    assert "config.toml" in refusal(source=file)


def test_very_long_dotted_keys_are_refused_at_once(tmp_path: Path) -> None:
    key = "learner" + ".a" * 100_000
    assert "learner.a: there is no such key" in refusal(f"{key}=1")
    file = tmp_path / "config.toml"
    for text in (f"{key} = 1\n", f"[{key}]\nb = 1\n", f'"{"x" * 9}"{".a" * 100_000} = 1\n'):
        file.write_text(text)
        assert "more than 64 parts" in refusal(source=file)


@pytest.mark.parametrize(
    "override",
    [
        "learner." + "x" * 100_000 + "=1",
        "x" * 100_000 + ".y=1",
        "x" * 100_000,
        "learner.updates='" + "y" * 100_000 + "'",
        "game.reward={" + "z" * 100_000 + "=1}",
        "opponents.members={" + "z" * 100_000 + "=1}",
        "grouping.keys=['" + "z" * 100_000 + "']",
        "opponents.remotes.x.structured='" + "z" * 100_000 + "'",
        "run.name.x.y=" + "z" * 100_000,
        "learner.nothing_like_any_key_at_all=1",
        'run.name="\\u001b[31mred"',
        'policy.path="a\\u0000b"',
    ],
)
def test_a_message_is_one_printable_line_of_at_most_500_characters(override: str) -> None:
    message = refusal(override)
    assert len(message) <= 500
    assert message.isprintable()


def test_no_message_shows_a_password() -> None:
    for override in ("redis.url=redis://u:secret@a..b:1", "redis.url=redis://:sec/ret", "redis.url=['redis://:secret@h']",
                     "learner.updates='redis://u:sec@ret@h'", "redis.urls=redis://u:secret@h"):  # fmt: skip
        message = refusal(override)
        assert "sec" not in message, message


@pytest.mark.parametrize(
    "override",
    [
        "opponents.remotes.gpt.api_key=sk-secret",
        "opponents.remotes.gpt.model=5\nsk-secret=1",
        "opponents.remotes.gpt={base_url='http://h/v1?key=sk-secret', model='m'}",
        "opponents.remotes.gpt.base_url=http://h/v1?key=sk-secret",
        "opponents.remotes.gpt.on_failure=sk-secret",
        "opponents.remotes=sk-secret",
        "rediss.url=rediss://host:1/0?password=sk-secret",
        "learner.updates.x=sk-secret",
        "learner.updates=http://h/v1?key=sk-secret",
        "key=sk-secret",
    ],
)
def test_no_message_shows_a_key(override: str, tmp_path: Path) -> None:
    message = refusal(override)
    assert "sk-" not in message, message
    key, _, value = override.partition("=")
    with pytest.raises(ConfigError) as caught:
        load_config("smoke", {key: value})
    assert "sk-" not in str(caught.value)
    file = tmp_path / "own.toml"
    remote = "[opponents.remotes.gpt]\nmodel = 'm'\nbase_url = "
    for text in ("'http://h/v1?key=sk-secret'", "'http://h/v1'\napi_key = 'sk-secret'"):
        file.write_text(remote + text)
        assert "sk-" not in refusal(source=file)


def test_what_is_no_configuration_file_is_refused_with_its_kind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.toml")
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "huge.toml").touch()
    os.truncate(tmp_path / "huge.toml", 1 << 40)
    kinds = {"fifo": "a FIFO", "folder": "a folder", "zero": "a device", "binary": "utf-8", "huge": "at most 1 MiB"}
    for name, kind in kinds.items():
        assert kind in refusal(source=tmp_path / f"{name}.toml")
    assert "no file can have this name" in refusal(source="a\0b.toml")
