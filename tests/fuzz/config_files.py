"""Configuration files: shipped ones with other values, and files that are damaged, endless or no files."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster.configs.loader import CONFIGS, dump_config, load_config
from cluster.configs.schema import config_from_json
from tests.fuzz.contract import Case, Kind, command
from tests.fuzz.mutations import changed, damaged, replaced, toml_bytes

WHOLE = tomllib.loads(
    dump_config(
        load_config(
            "smoke",
            [
                "redis.url=redis://h:1/0",
                "opponents.remotes.a.base_url=http://h/v1",
                "opponents.remotes.a.model=m",
                "metrics.port=9464",
                "rollout.max_actors=2",
            ],
        )
    )
)


def cases(rng: random.Random) -> Iterator[Case]:
    """Mostly documents with one value changed; each is loaded, and one in twelve examined by ``entente doctor``."""
    shipped = sorted(CONFIGS.glob("*.toml"))
    while True:
        how, seed = rng.random(), rng.randrange(1 << 30)
        if how < 0.1:
            yield Case(f"another file, seed {seed}", (seed, False))
            continue
        if how < 0.3:
            name, data = damaged(rng, rng.choice(shipped).read_bytes())
        else:
            document = WHOLE if rng.random() < 0.7 else tomllib.loads(rng.choice(shipped).read_text())
            name, document = changed(rng, document)
            data = toml_bytes(document) if isinstance(document, dict) else str(document).encode("utf-8", "replace")
        yield Case(name, (data, rng.random() < 0.1))


def run(case: Case, folder: Path, shared: object) -> None:
    """Load the file and, if it is good, write it and read it again, as a resumed run and its actors do."""
    path, (content, examined) = folder / "config.toml", case.input
    path.write_bytes(content if isinstance(content, bytes) else b"[run]\nseed = 1\n")
    if isinstance(content, int):
        replaced(random.Random(content), path)
    config: Any = load_config(path)
    if examined:
        command("doctor", path, "--run-dir", folder / "run")
    path.unlink()
    path.write_text(dump_config(config))
    assert load_config(path) == config
    assert config_from_json(config.model_dump_json()) == config


KIND = Kind("config files", cases, run, quick=40)
