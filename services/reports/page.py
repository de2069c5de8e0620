"""Self-contained pages: templates, styles, scripts and data in one HTML file that needs no network."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from grpo_core.checkpoints.atomic_write import write_atomically
from grpo_core.errors import EntenteError

# The browser may fetch nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


class ReportError(EntenteError):
    """A report or viewer cannot be made; the message is one line with the file and the reason."""


def asset(name: str) -> str:
    """Return a template, style or script by its path below ``services/reports``."""
    return files("services.reports").joinpath(name).read_text(encoding="utf-8")


def embed_json(data: Any) -> str:
    """Return JSON that is safe inside a ``<script>`` element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def page(title: str, body: str, *, styles: str, data: Mapping[str, Any], scripts: list[str]) -> str:
    """Return a whole page; ``body`` is trusted HTML, and scripts find ``data`` as the JSON text of ``#data``."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',
            f"<title>{html.escape(title)}</title>",
            f"<style>{styles}</style></head><body>",
            body,
            f'<script type="application/json" id="data">{embed_json(data)}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>\n",
        ]
    )


def write_page(out: Path, text: str) -> Path:
    """Write the file atomically; raises ``StorageError`` if it cannot be written."""
    write_atomically(out, text.encode("utf-8", "replace"))  # a path may hold bytes that are no text
    return out
