"""The configuration of a run and the facts needed to reproduce it, as HTML; all texts from files are escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from grpo_core.models.hub import without_folders
from services.reports.run_report.data import RunData
from services.reports.run_report.table import table

_ACCOUNT = re.compile(r"(\w+://).*@", re.DOTALL)  # user and password of a URL; a password may hold an @ or a slash
_PASSWORD = re.compile(r"([?&]\w*password=)[^&\s]+")  # in a URL's query, of a server or of a key file
_KEY_FOLDER = re.compile(r"([?&]ssl_\w+=)[^&\s]*(?:/|%2[Ff])")  # where a URL's certificate or key file lies


def configuration(run: RunData, defaults: Mapping[str, Mapping[str, Any]] | None) -> str:
    """Return the values that differ from the defaults, and the whole configuration, folded."""
    if not run.config:
        return ""
    kept = [(name, _without_folders(name, value)) for name, value in _flat(run.config)]
    whole = html.escape("\n".join(f"{name} = {value_text(value)}" for name, value in kept))
    folded = f'<details><summary>The whole configuration</summary><pre class="card">{whole}</pre></details>'
    if defaults is None:
        return f'<section id="configuration"><h2>Configuration</h2>{folded}</section>'
    usual = dict(_flat(defaults))
    rows = [
        [name, value_text(value), value_text(usual[name]) if name in usual else "unset"]
        for name, value in kept
        if name not in usual or usual[name] != value
    ]
    differing = (
        table(("key", "this run", "default"), rows, texts=3, name="Configuration") if rows else "<p>All defaults.</p>"
    )
    note = '<p class="soft">Values that differ from the defaults.</p>'
    return f'<section id="configuration"><h2>Configuration</h2>{note}{differing}{folded}</section>'


def provenance(run: RunData) -> str:
    """Return the facts needed to reproduce the run."""
    summary = run.summary
    rows = [
        ["commit", str(summary.get("commit", "unknown"))],
        ["configuration digest", str(summary.get("config_digest", "unknown"))],
        ["seed", str(run.config.get("run", {}).get("seed", "unknown"))],
        *([name.replace(".", " "), value_text(value)] for name, value in _flat(summary.get("provenance", {}))),
    ]
    found = table(("", ""), rows, texts=2, name="Provenance")
    return f'<section id="provenance"><h2>Provenance</h2>{found}</section>'


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", list(value) if isinstance(value, tuple) else value


def _without_folders(name: str, value: Any) -> Any:
    """Leave of a path its last part, because reports are shared; a model's name on the Hub stays whole."""
    if name == "policy.path" and value:
        return without_folders(str(value))
    if name in ("imitation.saved_games", "game.gsm8k", "evaluation.gsm8k") and value:
        return PurePath(str(value)).name
    return value


def value_text(value: Any) -> str:
    """Return a value of the configuration as text, without passwords and folders."""
    if isinstance(value, list):
        return ", ".join(map(value_text, value))
    text = _ACCOUNT.sub(r"\1***@", str(value))  # reports are shared; passwords are not
    return _KEY_FOLDER.sub(r"\1", _PASSWORD.sub(r"\1***", text))
