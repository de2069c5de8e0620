"""Reference pages generated from the program itself: configuration, command line, metrics and the API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import typer
import typer.cli
import typer.main

from cluster.cli.app import app
from cluster.configs.reference import config_sections
from cluster.configs.schema import Config
from services.metrics.catalogue import Metric, whole_table


def configuration_page() -> str:
    """Return every configuration key by section, with its default, meaning and range."""
    text = (
        "A config is a TOML file and says only what differs from these defaults. `--set section.key=value` changes one "
        "key; `entente train --keys` prints this list. For an unset key, its meaning says what holds."
    )
    parts = ["# Configuration", text]
    for section in config_sections(Config):
        rows = [(f"`{key.name}`", f"`{key.default}`", key.text) for key in section.keys]
        parts += [f"## `[{section.name}]`", section.text, _table(("Key", "Default", "Meaning"), rows)]
    return "\n\n".join(parts)


def command_line_page() -> str:
    """Return the help of every command, as typer writes it."""
    command = typer.main.get_command(app)
    text = typer.cli.get_docs_for_click(obj=command, ctx=typer.Context(command), name="entente", title="Command line")
    return _without_html(text.strip())


def metrics_page() -> str:
    """Return the catalogue of metrics as a table."""
    text = (
        "Every metric that `metrics.jsonl` records and the exporter serves. A unit of 1 is a ratio, or a count "
        "without a better word. Counters hold the total since the run began, resumes included. "
        "[How to watch a run](services/metrics/README.md), and [which panel shows what](services/metrics/PANELS.md)."
    )
    measured = Config().world.measured
    rows = [
        (f"`{_with_labels(metric)}`", f"{metric.kind}, {metric.unit}", metric.help) for metric in whole_table(measured)
    ]
    wide = "---\nhide: [toc]\n---"
    return "\n\n".join((wide, "# Metrics", text, _table(("Metric and labels", "Kind and unit", "Meaning"), rows)))


def _with_labels(metric: Metric) -> str:
    return f"{metric.name}{{{','.join(metric.labels)}}}" if metric.labels else metric.name


def package_page(package: str, modules: Iterable[str]) -> str:
    """Return the page of a package, whose docstrings mkdocstrings fills in."""
    parts = [f"# `{package}`", _docstrings(package, level=2, heading=False)]
    parts += [_docstrings(module, level=2, heading=True) for module in modules]
    return "\n\n".join(parts)


def _docstrings(module: str, *, level: int, heading: bool) -> str:
    options = f"      heading_level: {level}\n      show_root_heading: {str(heading).lower()}"
    return f"::: {module}\n    options:\n{options}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return _without_html("\n".join(f"| {' | '.join(row)} |" for row in cells))


def _without_html(markdown: str) -> str:
    """Return the text with ``<name>`` as it is written, not as HTML; in code it is so anyway."""
    return re.sub(r"(```.*?```|`[^`\n]*`)|<", lambda match: match[1] or "&lt;", markdown, flags=re.DOTALL)
