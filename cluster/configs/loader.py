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
from grpo_core.errors import one_line
from grpo_core.files import MIB, parse_toml, read_text

CONFIGS = Path(__file__).parent
_SHOWN = 80  # characters of what the user wrote, in a message
_LISTED = 200  # characters of a list of known keys


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
    data, config, sections = _read(path), Config(), {}
    for name in names:
        try:
            sections[name] = type(getattr(config, name)).model_validate(data.get(name, {}))
        except ValidationError as error:
            raise ConfigError(f"{path}: {_one_line(error, name)}") from None
    return config.model_copy(update=sections)


def _read(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(read_text(path, MIB))
    except FileNotFoundError:
        shipped = ", ".join(sorted(file.stem for file in CONFIGS.glob("*.toml")))
        raise ConfigError(f"no config file {path}; give a path, or one of the shipped configs: {shipped}") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} cannot be read as TOML: {one_line(error, 200)}") from error


def dump_config(config: Config) -> str:
    """Write the resolved configuration as TOML, without the keys that are None."""
    return tomli_w.dumps(json.loads(config.model_dump_json(exclude_none=True)))


def _apply(data: dict[str, Any], override: str) -> None:
    name, separator, text = override.partition("=")
    section, dot, key = name.strip().partition(".")
    if not separator or not dot or not key:
        raise ConfigError(f"--set {_shown(override)} is not section.key=value, e.g. --set learner.learning_rate=1e-4")
    try:
        parsed = parse_toml(f"value = {text}")
    except tomllib.TOMLDecodeError:
        parsed = {"value": text}  # a bare word is a string
    except ValueError as error:
        raise ConfigError(f"--set {_shown(override)}: {one_line(error, 200)}") from None
    if len(parsed) > 1:
        raise ConfigError(f"--set {_shown(override)}: give one key at a time; --set is repeatable")
    table = _table(data, section, override)
    parents = key.split(".")
    for parent in parents[:-1]:
        table = _table(table, parent, override)
    table[parents[-1]] = parsed["value"]


def _table(data: dict[str, Any], name: str, override: str) -> dict[str, Any]:
    table = data.setdefault(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"--set {_shown(override)}: {_shown(name)} holds {_shown(table)} and has no keys of its own")
    return table


def _one_line(error: ValidationError, *section: str) -> str:
    """The first fault of the configuration, or of one section of it."""
    first = error.errors(include_url=False)[0]
    location = [*section, *(str(part) for part in first["loc"])]
    name = one_line(".".join(location), _SHOWN)
    if first["type"] == "extra_forbidden":
        known = _known_keys(location[:-1])
        near = difflib.get_close_matches(location[-1][:_SHOWN], known, n=1, cutoff=0.4)
        listed = f"known keys: {', '.join(known)}"
        if near:
            hint = f"did you mean {'.'.join([*location[:-1], near[0]])}?"
        else:
            hint = listed if len(listed) <= _LISTED else "entente train --keys lists all keys"
        return f"unknown key {name}; {hint}"
    message = one_line(first["msg"], 400).removeprefix("Value error, ")
    if first["type"] == "missing":
        return f"{name} is not set"
    if not name or name == "redis.url":  # which may hold a password
        return f"{name}: {message}".removeprefix(": ")
    return f"{name}: {message} (got {_shown(first['input'])})"


def _shown(value: Any) -> str:
    """A value as a message quotes it: short, and without a url's password."""
    if isinstance(value, str):
        head, mark, rest = value.partition("://")
        _, at, place = rest.rpartition("@")  # after the password, which may hold anything else
        return one_line(repr(f"{head}{mark}***@{place}" if at else value), _SHOWN)
    if isinstance(value, bool):
        return str(value).lower()  # as in TOML
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of many digits"  # thousands of them cannot even be written
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    return one_line(value, _SHOWN)


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
