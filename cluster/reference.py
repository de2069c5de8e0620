"""The configuration's reference, from the models themselves: every key with its default and what it means."""

from __future__ import annotations

import json

from pydantic import BaseModel
from pydantic.fields import FieldInfo


def config_reference(model: type[BaseModel]) -> str:
    """Text in TOML's shape: a section each, a key a line with its default, range and description."""
    lines: list[str] = []
    for section, field in model.model_fields.items():
        settings = field.annotation
        assert isinstance(settings, type)
        assert issubclass(settings, BaseModel)
        lines += [f"[{section}]  # {(settings.__doc__ or '').strip().splitlines()[0]}"]
        lines += [_line(name, key) for name, key in settings.model_fields.items()]
        lines.append("")
    return "\n".join(lines).rstrip()


def _line(name: str, field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    value = "unset" if default is None else json.dumps(default, default=list)
    bounds = [
        f"{sign} {getattr(mark, attribute)}"
        for mark in field.metadata
        for attribute, sign in (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<"))
        if getattr(mark, attribute, None) is not None
    ]
    limits = f" ({', '.join(bounds)})" if bounds else ""
    return f"{name} = {value}  # {field.description}{limits}"
