"""Reads TOML files and overrides into a checked ``Config``, and writes one back."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import tomli_w
from pydantic import ValidationError

from cluster.configs.error_messages import SHOWN, Fault, fault_of, may_be_quoted, quoted, without_password
from cluster.configs.schema import Config, config_class_of
from cluster.configs.shipped import CONFIGS, shipped_configs
from cluster.errors import ConfigError
from grpo_core.errors import one_line
from grpo_core.files import MIB, parse_toml, read_json, read_text
from services.environments.registry import WorldError


@dataclass(frozen=True, slots=True)
class _Override:
    """One changed key: its path and its value."""

    path: tuple[str, ...]
    value: Any
    text: str  # the value as the user wrote it
    option: str = "--set"

    @property
    def name(self) -> str:
        """The option as a message quotes it, with its value if that is short and holds no secret."""
        key = one_line(".".join(self.path), SHOWN)
        if not may_be_quoted(self.path) or isinstance(self.value, list | tuple | dict):
            return f"{self.option} {key}"
        return f"{self.option} {key}={one_line(without_password(self.text.strip()), SHOWN)}"


Source: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Config
Overrides: TypeAlias = Sequence[str] | Mapping[str, Any]


def load_config(source: Source, overrides: Overrides = ()) -> Config:
    """Read a configuration, change some of its keys, and check it as a whole.

    ``source`` is a TOML file, the name of a shipped config such as ``laptop``, a mapping from sections to their keys,
    or a configuration. ``overrides`` are ``"section.key=value"``, as after ``--set``, or a mapping from ``section.key``
    to values; with None a key gets its default.

    Raises ConfigError if there is no such file, it is not TOML, a key is unknown (the message names the nearest valid
    one), or a value is out of range. The message begins with the override that is to blame, or else with the file.
    """
    if isinstance(source, Config) and not overrides:
        return source
    name, data = _sections(source)
    if isinstance(overrides, str):
        raise ConfigError('give overrides as a list, such as ["learner.learning_rate=1e-4"]')
    if not isinstance(overrides, Iterable):
        raise ConfigError(f"give overrides as a list or a mapping, not {type(overrides).__name__}")
    if isinstance(overrides, Mapping):
        given = [_from_mapping(str(key), value) for key, value in overrides.items()]
    else:
        given = [_parsed(override) if isinstance(override, str) else _no_override(override) for override in overrides]
    found = _checked(data, given)
    if isinstance(found, Config):
        return found
    culprits = _to_blame(data, given, found)
    if not culprits:
        raise ConfigError(f"{name}: {found}")
    named = one_line(", ".join(culprit.name for culprit in culprits), 200)
    # What the option shows already need not be said again.
    whole = any(culprit.path == found.location for culprit in culprits)
    raise ConfigError(f"{named}: {found.text if whole else found}")


def _sections(source: Source) -> tuple[str, dict[str, Any]]:
    """The name of a configuration for messages, and its sections."""
    if isinstance(source, Config):
        return "the configuration", _as_toml(source)
    if isinstance(source, Mapping):
        return "the configuration", _plain(source)
    try:
        path = Path(source)
    except TypeError:
        kind = type(source).__name__
        raise ConfigError(
            f"a configuration is a file, the name of a shipped one, a mapping or a Config, not {kind}"
        ) from None
    if not path.is_file() and not path.suffix and (CONFIGS / f"{source}.toml").exists():
        path = CONFIGS / f"{source}.toml"
    return str(path), _read(path)


def _plain(value: Any) -> Any:
    """A copy with dictionaries for mappings and texts for paths, without the keys that are None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if item is not None}
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def load_sections(path: Path, *names: str) -> Config:
    """Read these sections alone, without the checks across sections; the others have their defaults.

    Raises ConfigError if the file is not TOML, or one of the sections cannot be used.
    """
    return _checked_sections(_read(path), path, names)


def load_exported_sections(path: Path, *names: str) -> Config:
    """Read these sections of the ``config`` in an exported policy's ``entente.json``, as ``load_sections`` does.

    Raises ConfigError if the file has none, or one of the sections cannot be used.
    """
    try:
        data = read_json(path)["config"]
        if not isinstance(data, dict):
            raise TypeError("its config is no table")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} has no configuration: {one_line(repr(error), 200)}") from None
    return _checked_sections(data, path, names)


def _checked_sections(data: dict[str, Any], path: Path, names: Sequence[str]) -> Config:
    try:
        model = config_class_of(data)
    except WorldError as error:
        raise ConfigError(f"{path}: task.name: {error}") from None
    config, sections = model(), {}
    for name in names:
        try:
            sections[name] = type(getattr(config, name)).model_validate(data.get(name, {}))
        except ValidationError as error:
            raise ConfigError(f"{path}: {_first_fault(error, model, name)}") from None
    return config.model_copy(update=sections)


def _read(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(read_text(path, MIB))
    except FileNotFoundError:
        shipped = ", ".join(shipped_configs())
        raise ConfigError(f"no config file {path}; give a path, or one of the shipped configs: {shipped}") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} cannot be read as TOML: {one_line(error, 200)}") from error


def dump_config(config: Config) -> str:
    """Write the resolved configuration as TOML, without the keys that are None."""
    return tomli_w.dumps(_as_toml(config))


def _as_toml(config: Config) -> dict[str, Any]:
    sections: dict[str, Any] = json.loads(config.model_dump_json(exclude_none=True))
    return sections


def _first_fault(error: ValidationError, model: type[Config], section: str | None = None) -> Fault:
    return fault_of(error.errors(include_url=False)[0], model, section)


def _checked(data: dict[str, Any], overrides: Sequence[_Override]) -> Config | Fault:
    """The configuration of a file's tables under overrides, or the first thing wrong with it."""
    changed = data
    for override in overrides:
        changed = _applied(changed, override)
    try:
        model = config_class_of(changed)
    except WorldError as error:
        return Fault(("task", "name"), str(error))
    try:
        return model.model_validate(changed)
    except ValidationError as error:
        return _first_fault(error, model)


def _to_blame(data: dict[str, Any], overrides: Sequence[_Override], fault: Fault) -> list[_Override]:
    """The overrides that cause a fault; none if it is the file's.

    It is the last one that gave the faulty value. If the fault lies between several values, it is each of those without
    which the configuration would be good, or at least have another fault; or all of them, if it takes several together.
    """
    gave = [override for override in overrides if override.path == fault.location[: len(override.path)]]
    if gave:
        return gave[-1:]
    if not overrides or _checked(data, ()) == fault:
        return []
    without = [_without(data, overrides, number) for number in range(len(overrides))]
    cures = [each for each, rest in zip(overrides, without, strict=True) if isinstance(rest, Config)]
    changes = [each for each, rest in zip(overrides, without, strict=True) if rest != fault]
    return cures or changes or list(overrides)


def _without(data: dict[str, Any], overrides: Sequence[_Override], number: int) -> Config | Fault | None:
    """What comes of all overrides but one; None if a later one needs the table that it made."""
    try:
        return _checked(data, [*overrides[:number], *overrides[number + 1 :]])
    except ConfigError:
        return None


def _parsed(override: str) -> _Override:
    name, separator, text = override.partition("=")
    section, dot, key = name.strip().partition(".")
    shown = one_line(without_password(name.strip()), SHOWN) + ("=..." if separator else "")  # a value may be a secret
    if not separator or not dot or not key:
        raise ConfigError(f"--set {shown} is not section.key=value, e.g. --set learner.learning_rate=1e-4")
    try:
        parsed = parse_toml(f"value = {text}")
    except tomllib.TOMLDecodeError:
        parsed = {"value": text}  # a bare word is a string
    except ValueError as error:
        raise ConfigError(f"--set {shown}: {one_line(error, 200)}") from None
    if len(parsed) > 1:
        raise ConfigError(f"--set {shown}: give one key at a time; --set is repeatable")
    return _Override((section, *key.split(".")), parsed["value"], text)


def _no_override(value: object) -> NoReturn:
    kind = type(value).__name__
    raise ConfigError(f'an override is a text such as "learner.learning_rate=1e-4", not {kind}')


def _from_mapping(name: str, value: Any) -> _Override:
    section, *key = name.split(".")
    if not key or not key[-1]:
        raise ConfigError(f"override {one_line(repr(name), SHOWN)} is not section.key, e.g. learner.learning_rate")
    return _Override((section, *key), _plain(value), quoted(value), "override")


def _applied(data: dict[str, Any], override: _Override) -> dict[str, Any]:
    """The tables with one value changed, or left out for None; those that are given stay as they are."""
    changed = table = dict(data)
    for depth, parent in enumerate(override.path[:-1]):
        inner = table.get(parent, {})
        if not isinstance(inner, dict):
            above = override.path[: depth + 1]
            where, held = one_line(".".join(above), SHOWN), quoted(inner) if may_be_quoted(above) else "a value"
            raise ConfigError(f"{override.name}: {where} holds {held} and has no keys of its own")
        table[parent] = dict(inner)
        table = table[parent]
    if override.value is None:
        table.pop(override.path[-1], None)
    else:
        table[override.path[-1]] = override.value
    return changed
