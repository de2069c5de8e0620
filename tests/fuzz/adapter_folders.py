"""Adapters: those of a checkpoint's specialists in peft's layout, and frozen ones in one file of the population."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path

from cluster.configs.loader import load_config
from opponents.population.population import Population
from opponents.population.redis_mirror import frozen_weights
from tests.fuzz.checkpoint_folders import USERS, edit_header, seal
from tests.fuzz.contract import Case, Kind, command
from tests.fuzz.mutations import changed, edit
from tests.fuzz.population_files import seal as seal_population
from tests.fuzz.run_folder import ADAPTERS, copy_to

FILES = ("adapter/FRANCE/adapter_config.json", "adapter/FRANCE/adapter_model.safetensors", "config.json")
KEYS = (
    ("r", 0),
    ("r", 10**9),
    ("r", -2),
    ("r", True),
    ("lora_alpha", "x"),
    ("lora_alpha", 1e308),
    ("peft_type", "IA3"),
    ("peft_type", None),
    ("target_modules", [1, 2]),
    ("target_modules", 3),
    ("use_rslora", "x"),
    ("bias", []),
    ("init_lora_weights", {}),
    ("rank_pattern", {"q_proj": 3}),
    ("revision", 5),
    ("revision", "weights-0"),
    ("task_type", "no_such"),
    ("layers_to_transform", [10**9]),
)
USES = ("resume", "policy", "frozen", "add")


def cases(rng: random.Random) -> Iterator[Case]:
    """A file of an adapter edited, or a key of its configuration set; then one use."""
    while True:
        use, seed = rng.choice(USES), rng.randrange(1 << 30)
        file = "population/v1-FRANCE.safetensors" if use == "frozen" else rng.choice(FILES)
        key = rng.choice(KEYS) if rng.random() < 0.4 else None
        yield Case(f"{file}: {key or f'seed {seed}'}, then {use}", (file, key, seed, use))


def run(case: Case, folder: Path, shared: object) -> None:
    """Damage an adapter of a copied run, and load it as the learner, the actors or a user do."""
    file, key, seed, use = case.input
    run_dir, rng = copy_to(folder, ADAPTERS), random.Random(seed)
    path = run_dir / file if use == "frozen" else run_dir / "checkpoints" / "2" / file
    if path.suffix == ".safetensors":
        _edit_tensors(rng, path, key)
    elif key:
        path.write_text(json.dumps({**json.loads(path.read_text()), key[0]: key[1]}))
    else:
        edit(rng, path)
    if rng.random() < 0.8:
        seal(run_dir / "checkpoints" / "2")
        seal_population(run_dir / "population.json")
    if use == "frozen":
        asyncio.run(_load_frozen(run_dir))
    elif use == "add":
        other = copy_to(folder / "other", ADAPTERS)
        command("population", "add", run_dir, "--to", other, "--country", "FRANCE", "--id", "x")
    elif use == "policy":
        asyncio.run(USERS[use](run_dir, rng))
    else:
        USERS[use](run_dir, rng)


def _edit_tensors(rng: random.Random, path: Path, key: tuple[str, object] | None) -> None:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    text = header.get("__metadata__", {}).get("adapter_config")
    if text is None or rng.random() < 0.4:
        edit_header(rng, path) if rng.random() < 0.6 else edit(rng, path, "bytes")
        return
    config = {**json.loads(text), key[0]: key[1]} if key else changed(rng, json.loads(text))[1]
    header["__metadata__"]["adapter_config"] = json.dumps(config)
    written = json.dumps(header).encode()
    path.write_bytes(len(written).to_bytes(8, "little") + written + data[8 + length :])


async def _load_frozen(run_dir: Path) -> None:
    """What a rollout actor does with a member that its block names."""
    from cluster.runtime.engines import make_engine

    config = load_config(run_dir / "config.toml")
    population = Population.load(run_dir / "population.json")
    member = population["policy/v1-FRANCE"]
    weights = frozen_weights(member, population.path, None)
    engine, _ = make_engine(config, run_dir / "checkpoints" / "0")
    await engine.update_weights(weights, member.version, policy=member.id)
    await engine.close()


KIND = Kind("adapter folders", cases, run, quick=0)  # its template alone takes seconds
