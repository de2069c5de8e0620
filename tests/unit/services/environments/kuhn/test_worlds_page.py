"""The page about worlds: short, complete, and every line of code in it holds."""

from __future__ import annotations

import doctest
import re
import tomllib

import pytest

from cluster.configs.loader import load_config
from services.environments.environment import World
from services.environments.registry import load_world, world_names
from tests.paths import ROOT

FOLDER = ROOT / "services" / "environments"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
# Commands, and the test that runs each as it stands.
COMMANDS = {
    "entente train kuhn": "tests/system/readme/commands.py",
    "python tests/examples/own_world.py --out runs/own-world": "tests/system/test_examples.py",
    "PYTHONPATH=. entente train nim.toml --run-dir runs/nim": "tests/system/test_examples.py",
}


def blocks(kind: str) -> list[str]:
    return [text for name, text in BLOCKS if name == kind]


def test_the_page_is_short() -> None:
    assert len(PAGE.splitlines()) <= 150
    assert {name for name, _ in BLOCKS} == {"", "python", "toml"}


def test_what_it_quotes_is_in_the_files_of_kuhn_poker() -> None:
    sources = [file.read_text(encoding="utf-8") for file in sorted((FOLDER / "kuhn").glob("*.py"))]
    quoted = [text for text in blocks("python") if ">>>" not in text]
    assert len(quoted) == 4
    for text in quoted:
        assert any(text in source for source in sources), text
    named = re.findall(r"\*\*\d\. \[`kuhn/(\w+\.py)`\]", PAGE)
    assert named == ["__init__.py", "game.py", "language.py", "world.py"]
    assert set(named) == {file.name for file in (FOLDER / "kuhn").glob("*.py")}


def test_what_it_types_prints_what_it_says() -> None:
    [typed] = [text for text in blocks("python") if ">>>" in text]
    test = doctest.DocTestParser().get_doctest(typed, {}, "README.md", None, 0)
    assert len(test.examples) == 7
    assert doctest.DocTestRunner().run(test).failed == 0


def test_its_commands_are_run() -> None:
    assert [line for text in blocks("") for line in text.splitlines()] == list(COMMANDS)
    for command, where in COMMANDS.items():
        assert command in (ROOT / where).read_text(encoding="utf-8")


def test_its_config_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "examples"))
    [text] = blocks("toml")
    config = load_config(tomllib.loads(text))
    assert config.world.name == "nim"
    assert config.learner.updates == 2


def test_its_table_has_every_part_of_a_world() -> None:
    _, _, section = PAGE.partition("## What the parts of `World` are for")
    table = section.partition("## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    parts = {name for name in (*vars(World), *World.__annotations__) if not name.startswith("_")}
    assert sorted(named) == sorted(parts)
    needed = {name for name in World.__annotations__ if not hasattr(World, name)} | World.__abstractmethods__
    [sentence] = re.findall(r"^Only (.*) have no default\.$", table, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", sentence)) == needed


def test_it_names_every_world_with_its_roles() -> None:
    rows = re.findall(r"^\| \[`(\w+)`\]\(\1/world\.py\) \|", PAGE, re.MULTILINE)
    assert tuple(rows) == world_names()
    for name, has_opponents in (("kuhn", True), ("word_problems", False), ("diplomacy", True)):
        assert load_world(name).has_opponents == has_opponents
