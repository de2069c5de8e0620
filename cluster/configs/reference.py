"""The reference of all configuration keys, generated from the settings classes."""

from __future__ import annotations

import json

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from cluster.configs.loader import table_model


def config_reference(model: type[BaseModel]) -> str:
    """Format the sections as TOML; each key has one line with its default, description and range."""
    lines: list[str] = []
    for section, field in model.model_fields.items():
        settings = field.annotation
        assert isinstance(settings, type)
        assert issubclass(settings, BaseModel)
        lines += _section(section, settings)
    return "\n".join(lines).rstrip()


def _section(name: str, settings: type[BaseModel]) -> list[str]:
    """Format a section's keys, then one section for each key that maps names to tables."""
    tables = {key: table_model(field.annotation) for key, field in settings.model_fields.items()}
    lines = [f"[{name}]  # {(settings.__doc__ or '').strip().splitlines()[0]}"]
    lines += [_line(key, field) for key, field in settings.model_fields.items() if tables[key] is None]
    lines.append("")
    for key, table in tables.items():
        if table is not None:
            lines += _section(f"{name}.{key}.NAME", table)
    return lines


def _line(name: str, field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    value = "required" if field.is_required() else "unset" if default is None else json.dumps(default, default=list)
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    bounds = [
        f"{sign} {getattr(mark, key)}" for mark in field.metadata for key, sign in signs.items() if hasattr(mark, key)
    ]
    limits = f" ({', '.join(bounds)})" if bounds else ""
    return f"{name} = {value}  # {field.description}{limits}"
