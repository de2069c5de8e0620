"""``--set`` overrides: any key with any value."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import tomli_w

from cluster.configs.loader import load_config
from cluster.configs.schema import Config, config_from_json
from tests.fuzz.contract import Case, Kind, command
from tests.fuzz.mutations import VALUES, unquoted

KEYS = tuple(f"{name}.{key}" for name, section in Config() for key in type(section).model_fields)
ODD_KEYS = (
    "",
    ".",
    "..",
    "a",
    "learner",
    "learner.",
    ".updates",
    "learner.updates.x",
    "learner.\0",
    "a" + ".a" * 50_000,
    "learner." + "x" * 100_000,
    "game.reward",
    "game.reward.centers",
    "game.reward." + "x" * 5000,
    "alignment.pairs.0",
    "opponents.members.remote:x",
    "opponents.remotes.x.base_url",
    "opponents.remotes.x",
    "opponents.members.random",
    "\ud800.a",
    "learner.updates ",
    "[learner]",
    "run.name.\x1b[31m",
    "__class__.__init__",
    "model_config.strict",
)
ODD_VALUES = (
    "",
    " ",
    "=",
    "1_000",
    "0x" + "f" * 9000,
    "1" * 10_000,
    "-" + "1" * 10_000,
    "1e999",
    "nan",
    "-inf",
    "1901-01-01",
    "12:00:00",
    "[" * 20_000,
    "{a=" * 3000,
    "{" + "a." * 20_000 + "a=1}",
    "[1,2",
    "'''",
    '"""\n',
    "true # comment",
    "1\n[learner]\nupdates=2",
    "1\nlearner.updates=2",
    "'redis://:secret@h:1'",
    "redis://:secret@a..b:x",
    "\ud800",
    "[[]]",
    "[{}]",
    "{ }",
    "'a..b'",
    "'::1'",
    "'[::1'",
    "'127.0.0.1:0'",
    "'ray://a..b:1'",
    "'h:²'",
    "'h:99999'",
    "auto",
)
NUMBERS = ("1", "2", "3", "7", "64", "0.5", "1e-9", "0.999", "1e6", "100000000", "9007199254740992", "1999", "true")


def cases(rng: random.Random) -> Iterator[Case]:
    """One or two overrides; keys that exist, with odd values, more than the others. Some are examined by doctor."""
    while True:
        bare = rng.random() < 0.02
        given = [rng.choice(ODD_KEYS)] if bare else [f"{_key(rng)}={_value(rng)}" for _ in range(rng.choice((1, 1, 2)))]
        yield Case(" ".join(text[:60] for text in given), (given, rng.random() < 0.15))


def _key(rng: random.Random) -> str:
    return rng.choice(ODD_KEYS) if rng.random() < 0.25 else rng.choice(KEYS)


def _value(rng: random.Random) -> str:
    how = rng.random()
    if how < 0.6:
        return rng.choice(ODD_VALUES if how < 0.35 else NUMBERS)
    _, value = rng.choice(VALUES)
    if value is None or rng.random() < 0.1:
        return json.dumps(value)
    try:
        return unquoted(tomli_w.dumps({"v": value}).partition("=")[2].strip())
    except (TypeError, ValueError):
        return unquoted(str(value))


def run(case: Case, folder: Path, shared: object) -> None:
    """Load with the overrides, as the actors load them again, or look at them by ``entente doctor``."""
    overrides, examined = case.input
    config = load_config("smoke", overrides)
    assert config_from_json(config.model_dump_json()) == config
    if examined:  # no argument of a process holds a NUL, and this configuration would not have been loaded
        options = [word for override in overrides for word in ("--set", override)]
        command("doctor", "smoke", *options, "--run-dir", folder / "run")


KIND = Kind("overrides", cases, run, quick=60)
