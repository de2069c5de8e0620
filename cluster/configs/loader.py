"""Reads TOML files and overrides into a checked ``Config``, and writes one back."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import tomli_w
from pydantic import BaseModel, ValidationError

from cluster.configs.schema import Config
from cluster.errors import ConfigError

CONFIGS = Path(__file__).parent


def load_config(source: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a TOML file (a path, or the name of a shipped config such as ``laptop``) and apply ``section.key=value``.

    Raises ConfigError if there is no such file, it is not TOML, a key is unknown (the message names the nearest valid
    one), or a value is out of range.
    """
    path = Path(source)
    if not path.is_file() and not path.suffix and (CONFIGS / f"{source}.toml").exists():
        path = CONFIGS / f"{source}.toml"
    data = _read(path)
    for override in overrides:
        _apply(data, override)
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{path}: {_one_line(error)}") from None


def load_sections(path: Path, *names: str) -> Config:
    """Read these sections alone, without the checks across sections; the others have their defaults.

    Raises ConfigError if the file is not TOML, or one of the sections cannot be used.
    """
    data, config = _read(path), Config()
    try:
        sections = {name: type(getattr(config, name)).model_validate(data.get(name, {})) for name in names}
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{path}: {error.title} {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return config.model_copy(update=sections)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        shipped = ", ".join(sorted(file.stem for file in CONFIGS.glob("*.toml")))
        raise ConfigError(f"no config file {path}; give a path, or one of the shipped configs: {shipped}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}") from error


def dump_config(config: Config) -> str:
    """Write the resolved configuration as TOML, without the keys that are None."""
    return tomli_w.dumps(json.loads(config.model_dump_json(exclude_none=True)))


def _apply(data: dict[str, Any], override: str) -> None:
    name, separator, text = override.partition("=")
    section, dot, key = name.strip().partition(".")
    if not separator or not dot or not key:
        raise ConfigError(f"--set {override!r} is not section.key=value, e.g. --set learner.learning_rate=1e-4")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string
    table = _table(data, section, override)
    parents = key.split(".")
    for parent in parents[:-1]:
        table = _table(table, parent, override)
    table[parents[-1]] = value


def _table(data: dict[str, Any], name: str, override: str) -> dict[str, Any]:
    table = data.setdefault(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"--set {override!r}: {name} holds {table!r} and has no keys of its own")
    return table


def _one_line(error: ValidationError) -> str:
    first = error.errors()[0]
    location = [str(part) for part in first["loc"]]
    name = ".".join(location)
    if first["type"] == "extra_forbidden":
        known = _known_keys(location[:-1])
        near = difflib.get_close_matches(location[-1], known, n=1, cutoff=0.4)
        hint = f"did you mean {'.'.join([*location[:-1], near[0]])}?" if near else f"known keys: {', '.join(known)}"
        return f"unknown key {name}; {hint}"
    message = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "missing":
        return f"{name} is not set"
    return f"{name}: {message} (got {first['input']!r})" if name else message


def _known_keys(location: Sequence[str]) -> list[str]:
    model: type[BaseModel] = Config
    parts = iter(location)
    for part in parts:
        annotation = model.model_fields[part].annotation
        tables = table_model(annotation)
        if tables is not None:
            next(parts, None)  # the table's name, which the user chooses
            model = tables
        elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
            model = annotation
        else:
            return []
    return sorted(model.model_fields)


def table_model(annotation: Any) -> type[BaseModel] | None:
    """Return the settings class of a key that maps names to tables (``dict[str, SomeSettings]``), else None."""
    if get_origin(annotation) is not dict:
        return None
    value = get_args(annotation)[1]
    return value if isinstance(value, type) and issubclass(value, BaseModel) else None
