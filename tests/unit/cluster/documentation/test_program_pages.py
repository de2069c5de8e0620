"""The pages made from the program name everything that the program has."""

from __future__ import annotations

from collections.abc import Iterator

import typer.main
from typer.core import TyperGroup

from cluster.cli.app import app
from cluster.configs.loader import CONFIGS, load_config
from cluster.configs.reference import config_reference, config_sections
from cluster.configs.schema import Config
from cluster.documentation.program_pages import command_line_page, configuration_page, metrics_page, package_page
from services.metrics.catalogue import whole_table
from tests.measured import DIPLOMACY


def test_the_configuration_page_has_every_key_of_the_reference() -> None:
    page = configuration_page()
    keys = [line.partition(" = ")[0] for line in config_reference(Config).splitlines() if " = " in line]
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == keys
    assert {f"## `[{section.name}]`" for section in config_sections(Config)} <= set(page.splitlines())


def test_the_keys_of_shipped_configs_are_in_the_sections() -> None:
    known = {(section.name, key.name) for section in config_sections(Config) for key in section.keys}
    dumped = load_config(CONFIGS / "laptop.toml").model_dump()
    written = {(section, key) for section, keys in dumped.items() for key in keys}
    assert written - known == {("opponents", "remotes")}  # maps names to tables, which are a section
    assert ("opponents.remotes.NAME", "base_url") in known


def test_the_command_line_page_has_every_command() -> None:
    headings = {line.strip("# `") for line in command_line_page().splitlines() if line.startswith("#")}
    assert headings - {"Command line"} == set(_commands(typer.main.get_command(app), "entente"))
    assert "entente population rate" in headings


def test_names_in_angle_brackets_are_text() -> None:
    lines = command_line_page().splitlines()
    assert "* `--run-dir <path>`: Folder of the run.  [default: (runs/&lt;run.name>)]" in lines


def _commands(command: object, name: str) -> Iterator[str]:
    if isinstance(command, TyperGroup):
        for child in command.commands.values():
            yield f"{name} {child.name}"
            yield from _commands(child, f"{name} {child.name}")


def test_the_metrics_page_has_every_metric_and_its_labels() -> None:
    rows = [line for line in metrics_page().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1].partition("{")[0] for row in rows] == [metric.name for metric in whole_table(DIPLOMACY)]
    assert any(row.startswith("| `entente_evaluation_win_rate{against,country}` | gauge, 1 |") for row in rows)


def test_a_package_s_page_asks_for_its_docstrings_and_its_modules() -> None:
    lines = package_page("pack", ["pack.one", "pack.two"]).splitlines()
    assert lines[0] == "# `pack`"
    assert [line for line in lines if line.startswith(":::")] == ["::: pack", "::: pack.one", "::: pack.two"]
