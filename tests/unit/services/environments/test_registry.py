"""Worlds by name and by import path, and what is said of those that cannot be used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grpo_core.errors import EntenteError
from services.environments.diplomacy.world import Diplomacy
from services.environments.environment import World
from services.environments.kuhn.world import Kuhn
from services.environments.registry import DEFAULT_WORLD, WorldError, load_world, world_names
from services.environments.word_problems.world import WordProblems
from tests.unit.services.environments.tiny_world import Tiny

HERE = "tests.unit.services.environments.tiny_world"
FAILING = {
    "raises": "raise RuntimeError('first line\\nsecond line')",
    "divides": "1 / 0",
    "syntax": "def broken(:",
    "imports": "import no_such_package",
    "long": "raise ValueError('x' * 100_000)",
    "empty": "",
    "value": "WORLD = 7",
    "instance": f"from {HERE} import *; from grpo_core.section import Settings; WORLD = Tiny(Settings())",
}
WRONG = ["poker", "", "Kuhn", "kuhn/world", "../kuhn", "kuhn ", "a:b:c", ":WORLD", "kuhn:", "a-b:C", "a..b:C", "kühn:C"]
WRONG += ["x" * 10**6, "a:" + "b" * 300, "a\nb:C"]


def refusal(name: str) -> str:
    with pytest.raises(WorldError) as caught:
        load_world(name)
    assert isinstance(caught.value, EntenteError)
    message = str(caught.value)
    assert message.isprintable(), "one line"
    assert len(message) < 600
    return message


def test_the_worlds_beside_the_registry_are_found_by_their_folders() -> None:
    assert world_names() == ("diplomacy", "kuhn", "word_problems")
    assert [load_world(name) for name in world_names()] == [Diplomacy, Kuhn, WordProblems]
    assert all(load_world(name).name == name for name in world_names())
    assert DEFAULT_WORLD in world_names()


def test_a_class_of_another_package_is_found_by_its_import_path() -> None:
    assert load_world(f"{HERE}:Tiny") is Tiny
    assert load_world("services.environments.kuhn.world:Kuhn") is Kuhn


@pytest.mark.parametrize("name", WRONG, ids=lambda name: ascii(name[:12]))
def test_an_unknown_name_is_one_line_with_the_names(name: str) -> None:
    message = refusal(name)
    assert message.startswith("no world is called ")
    assert "there are diplomacy, kuhn, word_problems, or a class of yours as package.module:CLASS" in message


def test_a_class_that_is_no_world_is_refused() -> None:
    assert refusal(f"{HERE}:NoWorld") == f"{HERE}:NoWorld is no subclass of services.environments.environment.World"
    assert "is no subclass of" in refusal(f"{HERE}:SEATS")


def test_a_world_that_is_not_finished_is_refused_with_what_it_lacks() -> None:
    assert refusal(f"{HERE}:Half") == f"the world {HERE}:Half lacks new_game, roles, language"
    assert refusal(f"{HERE}:Nameless") == f"the world {HERE}:Nameless lacks name"
    message = refusal("services.environments.environment:World")
    assert message.endswith("lacks new_game, roles, name, role_name, measures, language")


@pytest.mark.parametrize("kind", FAILING)
def test_a_module_that_fails_is_one_line(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = f"failing_world_{kind}"
    (tmp_path / f"{module}.py").write_text(FAILING[kind])
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"{module}:WORLD"
    message = refusal(name)
    assert name in message
    expected = "is no subclass of" if kind in ("value", "instance") else "cannot be imported: "
    assert expected in message


def test_modules_and_classes_that_do_not_exist_are_named() -> None:
    assert "ModuleNotFoundError: No module named 'no_such_package'" in refusal("no_such_package.world:WORLD")
    assert "AttributeError: " in refusal(f"{HERE}:Missing")


def test_a_corrected_module_is_found_without_a_new_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "corrected_world.py"
    file.write_text("raise RuntimeError")
    refusal("corrected_world:Tiny")
    file.write_text(f"from {HERE} import Tiny  # now with the right contents")
    assert load_world("corrected_world:Tiny") is Tiny


@pytest.mark.parametrize("name", ["diplomacy", "kuhn", "word_problems"])
def test_a_world_is_imported_quickly(name: str) -> None:
    code = (
        f"import sys; from services.environments.registry import load_world; load_world({name!r});"
        "print(sorted({'torch', 'ray', 'transformers', 'diplomacy', 'scipy.stats', 'vllm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_every_world_can_be_listed_as_a_class_of_its_contract() -> None:
    for name in world_names():
        world = load_world(name)
        assert issubclass(world, World)
        assert all(measure.low < measure.high for measure in world.measures)
        assert len({measure.row_name for measure in world.measures}) == len(world.measures)
