"""Finds, reads and writes scenarios: those of this package by id and family, and one's own by path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import tomli_w
from pydantic import ValidationError

from grpo_core.checkpoints.atomic_write import write_atomically
from grpo_core.errors import one_line
from grpo_core.files import MIB, parse_toml, read_text
from services.environments.diplomacy.scenarios.scenario import FAMILIES, Scenario, ScenarioError

LIBRARY = Path(__file__).parent / "library"
SUFFIX = ".toml"


def from_file(path: Path) -> Scenario:
    """Read a scenario. Raises ScenarioError with the file, the key and the reason."""
    try:
        return Scenario.model_validate(parse_toml(read_text(path, MIB)))
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        reason = "there is no such key" if first["type"] == "extra_forbidden" else first["msg"]
        said = one_line(reason.removeprefix("Value error, "), 250)
        raise ScenarioError(f"{path}: {one_line(key, 100)}{': ' if key else ''}{said}") from error
    except ValueError as error:
        raise ScenarioError(f"{path}: cannot be read as TOML: {one_line(error, 200)}") from error


def write(scenario: Scenario, path: Path) -> None:
    """Write a scenario that ``from_file`` reads; StorageError if it cannot be written."""
    document = scenario.model_dump(mode="json", exclude_defaults=True)
    write_atomically(path, tomli_w.dumps(document).encode())


@cache
def shipped() -> dict[str, Scenario]:
    """All scenarios of this package by id, family by family, then by id."""
    found = (from_file(path) for family in FAMILIES for path in sorted((LIBRARY / family).glob(f"*{SUFFIX}")))
    return {scenario.id: scenario for scenario in found}


def in_path(path: Path) -> list[Scenario]:
    """The scenario of a file, or those of all ``*.toml`` files of a folder, sorted by name.

    Raises ScenarioError for one that cannot be read, a folder without any, and two with one id.
    """
    if not path.is_dir():
        return [from_file(path)]
    found = [from_file(each) for each in sorted(path.glob(f"*{SUFFIX}"))]
    if not found:
        raise ScenarioError(f"{path}: holds no *{SUFFIX} file; name a folder with scenarios")
    if twice := {each.id for each in found if sum(other.id == each.id for other in found) > 1}:
        raise ScenarioError(f"{path}: two of its files have the id {min(twice)}")
    return found


def named(name: str) -> list[Scenario]:
    """The scenarios of an id, a family, ``all``, or a path that ends in ``.toml`` or is a folder.

    Raises ScenarioError if there are none.
    """
    if name == "all":
        return list(shipped().values())
    if name in FAMILIES:
        return [scenario for scenario in shipped().values() if scenario.family == name]
    if name in shipped():
        return [shipped()[name]]
    if name.endswith(SUFFIX) or "/" in name:
        return in_path(Path(name))
    raise ScenarioError(
        f"no scenario is called {one_line(repr(name), 80)}; `entente scenarios list` has the ids; a family "
        f"({', '.join(FAMILIES)}), all, or a file is possible too"
    )


def all_named(names: Iterable[str]) -> Sequence[Scenario]:
    """The scenarios of several names as in ``named``, each once. Raises ScenarioError, also for two with one id."""
    found: dict[str, Scenario] = {}
    for scenario in (each for name in names for each in named(name)):
        if found.setdefault(scenario.id, scenario) != scenario:
            raise ScenarioError(f"two different scenarios have the id {scenario.id}")
    return tuple(found.values())
