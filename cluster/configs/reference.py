"""The reference of all configuration keys, generated from the settings classes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from cluster.configs.error_messages import table_model


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key of a section."""

    name: str
    default: str  # JSON, "required" or "unset"
    text: str  # what it means, with its range in brackets


@dataclass(frozen=True, slots=True)
class ConfigSection:
    """One table of a config file; ``NAME`` in its name stands for any name that the user chooses."""

    name: str
    text: str
    keys: tuple[ConfigKey, ...]


def config_sections(model: type[BaseModel]) -> Iterator[ConfigSection]:
    """Yield the sections of a configuration; a key that maps names to tables is a section after its own."""
    for section, field in model.model_fields.items():
        settings = field.annotation
        assert isinstance(settings, type)
        assert issubclass(settings, BaseModel)
        yield from _sections(section, settings, field.get_default(call_default_factory=True))


def config_reference(model: type[BaseModel]) -> str:
    """Format the sections as TOML; each key has one line with its default, description and range."""
    lines: list[str] = []
    for section in config_sections(model):
        lines.append(f"[{section.name}]  # {section.text}")
        lines += [f"{key.name} = {key.default}  # {key.text}" for key in section.keys]
        lines.append("")
    return "\n".join(lines).rstrip()


def _sections(name: str, settings: type[BaseModel], defaults: BaseModel | None = None) -> Iterator[ConfigSection]:
    """Yield a section; ``defaults`` has the values that its keys have, where these differ from the class's own."""
    tables = {key: table_model(field.annotation) for key, field in settings.model_fields.items()}
    text = (settings.__doc__ or "").strip().splitlines()[0]
    keys = tuple(_key(key, field, defaults) for key, field in settings.model_fields.items() if tables[key] is None)
    yield ConfigSection(name, text, keys)
    for key, table in tables.items():
        if table is not None:
            yield from _sections(f"{name}.{key}.NAME", table)


def _key(name: str, field: FieldInfo, defaults: BaseModel | None) -> ConfigKey:
    default = field.get_default(call_default_factory=True) if defaults is None else getattr(defaults, name)
    value = "required" if field.is_required() else "unset" if default is None else json.dumps(default, default=list)
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    bounds = [
        f"{sign} {getattr(mark, key)}" for mark in field.metadata for key, sign in signs.items() if hasattr(mark, key)
    ]
    limits = f" ({', '.join(bounds)})" if bounds else ""
    text = str(field.description)
    choices = _choices(field.annotation)
    named = "" if set(re.findall(r"\w+", text)).issuperset(choices) else f"; one of {', '.join(choices)}"
    return ConfigKey(name, value, f"{text}{named}{limits}")


def _choices(annotation: object) -> list[str]:
    """Return the words that a value of this type may be, or its items; none if it may be others."""
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    return [choice for part in get_args(annotation) for choice in _choices(part)]
