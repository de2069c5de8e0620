"""Says in one line what is wrong with a value of the configuration, and what to give instead.

The types, ranges and examples come from the settings classes, through pydantic's JSON schema of them.
"""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from cluster.configs.schema import Config
from grpo_core.errors import one_line

SHOWN = 80  # characters of what the user wrote, in a message
_LISTED = 200  # characters of a list of known keys
_NOUNS = {"string": "text", "integer": "whole number", "number": "number", "array": "list", "object": "table"}
_Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong value, or one contradiction between several."""

    location: tuple[str, ...]  # section, key and parts of the value; empty: the fault is between sections
    text: str  # what is wrong, and what to give instead
    given: str | None = None  # the value, as a message quotes it; None where it says nothing, or may hold a secret

    @property
    def key(self) -> str:
        """The location as the user writes it; empty for a fault between sections."""
        return one_line(".".join(self.location), SHOWN)

    def __str__(self) -> str:
        """Return key, text and given value in one line."""
        key, given = f"{self.key}: " if self.key else "", f" (got {self.given})" if self.given is not None else ""
        return f"{key}{self.text}{given}"


def fault_of(error: ErrorDetails, model: type[Config] = Config, section: str | None = None) -> Fault:
    """Put an error of pydantic into words; ``section`` is the section that was checked, None for a whole ``model``."""
    location = (*([] if section is None else [section]), *(str(part) for part in error["loc"]))
    kind, parent = error["type"], location[:-1]
    if kind == "extra_forbidden":
        return Fault(location, _unknown_key(location, model))
    if kind == "value_error":  # of our own checks
        # A check of several values quotes what matters.
        quotes = isinstance(error["input"], str | int | float) and may_be_quoted(location, model)
        return Fault(location, one_line(error["ctx"]["error"], 400), quoted(error["input"]) if quotes else None)
    if kind == "missing" and not location[-1].isdigit():
        described = _schema_at(location, model)[0].get("description", "")
        return Fault(location, f"it is not set ({described})" if described else "it is not set")
    if kind == "missing":  # a tuple is too short
        location, given = parent, None
    else:
        given = quoted(error["input"]) if may_be_quoted(location, model) else None
    schema, example = _schema_at(location, model)
    noun = _wanted(schema)
    if kind == "finite_number":
        noun = noun.replace("a number", "a finite number", 1)
    elif kind == "too_short" and schema.get("minItems") == 1:
        noun += " that is not empty"
    elif kind == "string_unicode":
        noun = "a text that is Unicode"
    elif kind == "string_type" and isinstance(error["input"], int | float) and may_be_quoted(location, model):
        noun += f', in quotes: "{quoted(error["input"])}"'
    return Fault(location, f"give {noun}{f', e.g. {example}' if example else ''}", given)


def may_be_quoted(location: Sequence[str], model: type[Config] = Config) -> bool:
    """Whether a message may show the value at a location: not where it may be a secret that was meant for elsewhere.

    These are the replay server's address, the remote players' tables, and keys that do not exist.
    """
    is_about_servers = location[:1] == ("redis",) or location[:2] == ("opponents", "remotes")
    return not is_about_servers and bool(_schema_at(location, model)[0])


def quoted(value: Any) -> str:
    """A value as a message quotes it: short, and without a url's password and query."""
    if isinstance(value, str):
        return one_line(repr(without_password(value)), SHOWN)
    if isinstance(value, bool):
        return str(value).lower()  # as in TOML
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of many digits"  # thousands of them cannot even be written
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    return one_line(value, SHOWN)


def without_password(text: str) -> str:
    """Hide the user, the password and the query of a url."""
    head, mark, rest = text.partition("://")
    _, at, place = rest.rpartition("@")  # after the password, which may hold anything else
    if mark:
        place, question, _ = place.partition("?")
        place += "?***" if question else ""
    return f"{head}{mark}{'***@' if at else ''}{place}"


def table_model(annotation: Any) -> type[BaseModel] | None:
    """Return the settings class of a key that maps names to tables (``dict[str, SomeSettings]``), else None."""
    if get_origin(annotation) is not dict:
        return None
    value = get_args(annotation)[1]
    return value if isinstance(value, type) and issubclass(value, BaseModel) else None


def as_toml(value: Any) -> str:
    """Write an example as TOML; tables are inline."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {as_toml(each)}" for name, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _unknown_key(location: Sequence[str], model: type[Config]) -> str:
    parent, known = location[:-1], _known_keys(location[:-1], model)
    near = difflib.get_close_matches(location[-1][:SHOWN], known, n=1, cutoff=0.4)
    if near:
        hint = f"did you mean {'.'.join([*parent, near[0]])}?"
    else:
        listed = f"the {'keys' if parent else 'sections'} are {', '.join(known)}"
        hint = listed if len(listed) <= _LISTED else "entente train --keys lists all keys"
    return f"there is no such {'key' if parent else 'section'}; {hint}"


def _known_keys(location: Sequence[str], config: type[Config]) -> list[str]:
    model: type[BaseModel] = config
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


def _schema_at(location: Sequence[str], model: type[Config]) -> tuple[_Schema, str]:
    """The JSON schema of a location, and an example of the nearest value around it that has one."""
    whole = _json_schema(model)
    here, name, example = _resolved(whole, whole), "", ""
    for depth, part in enumerate(location):
        items = here.get("prefixItems")
        if part in here.get("properties", {}):
            inner = here["properties"][part]
        elif items and part.isdigit() and int(part) < len(items):
            inner = items[int(part)]
        elif "items" in here or isinstance(here.get("additionalProperties"), dict):
            inner = here.get("items") or here["additionalProperties"]
        else:
            return {}, ""
        here = _resolved(inner, whole)
        if found := here.get("examples"):
            name, example = ".".join(location[: depth + 1]), as_toml(found[0])
    if example and name != ".".join(location):
        example = f"{name} = {example}"
    return here, example


@functools.cache
def _json_schema(model: type[Config]) -> _Schema:
    return model.model_json_schema()


def _resolved(schema: _Schema, whole: _Schema) -> dict[str, Any]:
    """A schema without references and without the choice to leave the key unset."""
    plain = {name: value for name, value in schema.items() if name not in ("$ref", "anyOf", "allOf")}
    for other in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
        if other.get("type") != "null":
            plain = {**_resolved(other, whole), **plain}
    if "$ref" in schema:
        plain = {**_resolved(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole), **plain}
    return plain


def _wanted(schema: _Schema) -> str:
    """The type and range of a value, with its article."""
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    kind = schema.get("type")
    if kind == "boolean":
        return "true or false"
    if kind == "array" and "prefixItems" in schema:
        items = schema["prefixItems"]
        return f"a list of {len(items)} {_NOUNS[items[0]['type']]}s"
    if kind == "array":
        return "a list"
    if kind == "object" and "properties" in schema:
        return f"a table with the keys {', '.join(list(schema['properties'])[:3])}, ..."
    if kind not in _NOUNS:
        return "another value"
    return f"a {_NOUNS[kind]}{_range(schema)}"


def _range(schema: _Schema) -> str:
    """The bounds of a number, or of a text's length."""
    if "minLength" in schema or "maxLength" in schema:
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        if most is None and least == 1:
            return " that is not empty"
        return f" of at least {least} characters" if most is None else f" of {least} to {most} characters"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" from {low:.15g} to {high:.15g}"
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    bounds = [(low, "of at least"), (above, "above"), (high, "at most"), (below, "below")]
    said = [f"{word} {bound:.15g}" for bound, word in bounds if bound is not None]
    return f" {' and '.join(said)}" if said else ""
