"""The configurations that come with the package."""

from __future__ import annotations

from pathlib import Path

CONFIGS = Path(__file__).parent


def shipped_configs() -> dict[str, str]:
    """Return the names of the shipped configs, sorted, each with the first line of its file's comment."""
    described = {}
    for file in sorted(CONFIGS.glob("*.toml")):
        with file.open(encoding="utf-8") as lines:
            described[file.stem] = lines.readline().removeprefix("#").strip()
    return described
