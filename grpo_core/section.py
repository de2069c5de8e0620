"""The base class of the configuration's sections, and what holds for the values of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Strict, field_validator

LARGEST = 1 << 53  # of a whole number; a float holds all of them exactly, so every reader of the file agrees
LONGEST_TEXT = 1000  # characters
LONGEST_WAIT_S = 1_000_000.0  # 11 days; a socket can wait for 24 at most

Texts = Annotated[tuple[str, ...], Strict(False)]  # strict would refuse a list, which is what TOML has


class Settings(BaseModel):
    """One section: immutable; unknown keys are refused, and values of another type are not converted.

    A whole number may stand where a fraction is wanted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False, strict=True)

    @field_validator("*", mode="after")
    @classmethod
    def _is_plain(cls, value: Any) -> Any:
        _check(value)
        return value


def _check(value: Any) -> None:
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            raise ValueError(f"a text has at most {LONGEST_TEXT} characters, and this one {len(value)}")
        if not value.isprintable():
            raise ValueError("a text has no line breaks or control characters")
    elif isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError(f"a whole number is at most {LARGEST}")
    elif isinstance(value, tuple):
        for each in value:
            _check(each)
    elif isinstance(value, Mapping):
        for name in value:
            _check(name)
