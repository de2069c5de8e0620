"""The tree of errors in the docstring of ``cluster.errors`` is the tree of the code, with its exit codes."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from importlib import import_module
from typing import Any

import pytest

import cluster.errors
from cluster.cli.app import main
from grpo_core.errors import EntenteError
from tests.paths import ROOT

INTERNAL = {"CodecError", "ConstraintError", "InvalidAnswerError"}
LINE = re.compile(r"^    ( *)(\w+Error) +(\d+)  ([\w.]+)", re.MULTILINE)


def drawn() -> dict[str, tuple[type[EntenteError], str, int]]:
    """Class, parent's name and exit code by the name of each error in the docstring."""
    found: dict[str, tuple[type[EntenteError], str, int]] = {}
    path: list[str] = []
    for indent, name, code, module in LINE.findall(cluster.errors.__doc__ or ""):
        del path[len(indent) // 2 :]
        found[name] = (getattr(import_module(module), name), path[-1] if path else "Exception", int(code))
        path.append(name)
    return found


def exception_classes() -> set[str]:
    """Names of all public exception classes that the packages define."""
    bases: dict[str, list[str]] = {}
    for package in ("cluster", "opponents", "services", "grpo_core"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    bases[node.name] = [ast.unparse(base).rpartition(".")[2] for base in node.bases]

    def is_exception(name: str) -> bool:
        builtin = getattr(builtins, name, None)
        if isinstance(builtin, type):
            return issubclass(builtin, BaseException)
        return any(is_exception(base) for base in bases.get(name, []))

    return {name for name in bases if is_exception(name) and not name.startswith("_")}


def test_the_error_tree_has_every_public_exception() -> None:
    assert set(drawn()) == exception_classes() - INTERNAL


def test_the_error_tree_shows_the_parent_of_each_error() -> None:
    for name, (error, parent, _) in drawn().items():
        assert error.__bases__[0].__name__ == parent, name


@pytest.mark.parametrize("name", sorted(drawn()))
def test_a_command_ends_with_the_exit_code_in_the_error_tree(name: str, monkeypatch: Any, capsys: Any) -> None:
    error, _, code = drawn()[name]

    def fail(**_: object) -> None:
        raise error("one line\n and what to do")

    monkeypatch.setattr(sys, "argv", ["entente"])
    monkeypatch.setattr("cluster.cli.app.app", fail)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == code
    assert capsys.readouterr().err == "error: one line and what to do\n"


@pytest.mark.parametrize("bug", [ValueError, RuntimeError])
def test_a_command_shows_the_traceback_of_a_bug(bug: type[Exception], monkeypatch: Any) -> None:
    def fail(**_: object) -> None:
        raise bug("unexpected")

    monkeypatch.setattr("cluster.cli.app.app", fail)
    with pytest.raises(bug):
        main()
