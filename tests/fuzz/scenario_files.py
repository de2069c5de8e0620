"""Scenario files: shipped ones with other values, and files that are damaged, endless or no files."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from services.environments.diplomacy.scenarios import files
from services.environments.diplomacy.scenarios.behaviour import other_players
from services.environments.diplomacy.scenarios.scenario_game import ScenarioGame
from tests.fuzz.contract import Case, Kind, command
from tests.fuzz.mutations import changed, damaged, replaced, toml_bytes

LIBRARY = sorted(Path(files.__file__).with_name("library").rglob("*.toml"))


def cases(rng: random.Random) -> Iterator[Case]:
    """Mostly documents with one value changed; each is read and begun, and one in twelve shown as the command does."""
    while True:
        how, seed = rng.random(), rng.randrange(1 << 30)
        if how < 0.1:
            yield Case(f"another file, seed {seed}", (seed, False))
            continue
        data = rng.choice(LIBRARY).read_bytes()
        if how < 0.3:
            name, data = damaged(rng, data)
        else:
            name, document = changed(rng, tomllib.loads(data.decode()))
            data = toml_bytes(document) if isinstance(document, dict) else str(document).encode("utf-8", "replace")
        yield Case(name, (data, rng.random() < 0.08))


def run(case: Case, folder: Path, shared: object) -> None:
    """Read the file and, if it is good, begin its game, write it and read it again."""
    path, (content, is_shown) = folder / "scenario.toml", case.input
    path.write_bytes(content if isinstance(content, bytes) else LIBRARY[0].read_bytes())
    if isinstance(content, int):
        replaced(random.Random(content), path)
    if is_shown:
        command("scenarios", "show", path, "--html", folder / "page.html")
    scenario: Any = files.from_file(path)
    game = ScenarioGame.begin(scenario)
    assert game.position.phase == scenario.phase
    assert scenario.country not in other_players(scenario)
    path.unlink()
    files.write(scenario, path)
    assert files.from_file(path) == scenario


KIND = Kind("scenario files", cases, run, quick=30)
