"""A run's population: its file, the weights of its members, and what the league keeps beside it."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

from cluster.configs.loader import load_config
from opponents.league.league import League
from opponents.population.population import Population
from opponents.population.redis_mirror import frozen_weights
from tests.fuzz.contract import Case, Kind, command
from tests.fuzz.mutations import edit
from tests.fuzz.run_folder import OVERRIDES, copy_to

FILES = (("population.json", "json"),) * 6 + (
    ("population/v1.safetensors", "bytes"),
    ("ratings.json", "json"),
    ("results.json", "json"),
    ("curriculum.json", "json"),
    ("lineups.jsonl", "lines"),
    ("run_id", "bytes"),
    ("format", "bytes"),
)
NAMES = (
    "../outside.safetensors",
    "/etc/passwd",
    "/dev/zero",
    "a\0b",
    "population",
    ".",
    "",
    "fifo",
    "population/../../x",
    "population/v1.safetensors",
    "n" * 300,
    "zero",
    "\u202e",
    "../run/population/v1.safetensors",
    "holes",
)
COMMANDS = (
    ("list",),
    ("show", "policy/v1"),
    ("show", "bot/random"),
    ("retire", "policy/v2"),
    ("pin", "policy/v1"),
    ("promote", "--checkpoint", "1", "--id", "x"),
    ("add", "dumbbot", "--to"),
    ("add", ".", "--member", "policy/v1", "--id", "y", "--to"),
)


def cases(rng: random.Random) -> Iterator[Case]:
    """Files edited, and members whose path leads elsewhere; then a command, or what training and its actors do."""
    while True:
        seed, how = rng.randrange(1 << 30), rng.random()
        what = rng.choice(COMMANDS[:5]) if how < 0.5 else rng.choice(COMMANDS) if how < 0.55 else None
        elsewhere = rng.choice(NAMES) if rng.random() < 0.3 else None
        file, shape = rng.choice(FILES)
        name = f"a member's file is {elsewhere!r}" if elsewhere is not None else f"{file} edited, seed {seed}"
        yield Case(f"{name}, then {what or 'training'}", (file, shape, seed, elsewhere, what))


def run(case: Case, folder: Path, shared: object) -> None:
    """Edit a copy of the run, then use it."""
    file, shape, seed, elsewhere, what = case.input
    run_dir, rng = copy_to(folder), random.Random(seed)
    path = run_dir / "population.json"
    if elsewhere is None:
        edit(rng, run_dir / file, shape)
    else:
        _place_odd_files(run_dir)
        document = json.loads(path.read_text())
        member = next(entry for entry in document["members"] if entry["kind"] == "policy")
        member[rng.choice(("name", "name", "name", "id", "parent", "source"))] = elsewhere
        path.write_text(json.dumps(document))
    if rng.random() < 0.5:
        seal(path)
    os.chdir(run_dir)
    if what is not None:
        words = [run_dir if word == "." else word for word in what]
        command("population", *((*words, run_dir) if what[-1] == "--to" else (words[0], run_dir, *words[1:])))
    config = load_config("smoke", OVERRIDES)
    population = Population.load(path)
    with population.transaction():
        population.remove_snapshots_after(2)
        population.advance_to(2)
    league = League(
        run_dir,
        population,
        config.opponents,
        world=config.world,
        num_generations=2,
        seed=1,
        version=2,
        resume=True,
    )
    with league:
        for index in range(5, 9):
            for member in league.members(league.block(index)):
                if member.kind == "policy":
                    frozen_weights(member, path, None)


def _place_odd_files(run_dir: Path) -> None:
    os.mkfifo(run_dir / "fifo")
    (run_dir / "zero").symlink_to("/dev/zero")
    (run_dir / "holes").write_bytes(b"")
    os.truncate(run_dir / "holes", 1 << 42)


def seal(path: Path) -> None:
    """Record the checksums that the weights have now, as one who made the files up would."""
    try:
        if not path.is_file() or path.stat().st_size > 1 << 24:
            return
        document = json.loads(path.read_text())
        for entry in document["members"]:
            weights = path.parent / str(entry["name"])
            if entry["kind"] == "policy" and weights.is_file() and weights.stat().st_size < 1 << 24:
                entry["checksum"] = hashlib.sha256(weights.read_bytes()).hexdigest()
        path.write_text(json.dumps(document))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return  # it is damaged already


KIND = Kind("population files", cases, run, quick=15)
