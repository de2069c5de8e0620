"""Machine code is kept where it can be, apart for every state of the sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.environments.diplomacy.bots.compiled import compiler


def doubled(number: int) -> int:
    return 2 * number


def folder() -> Path | None:
    return compiler._folder.__wrapped__()


def test_a_folder_for_exactly_these_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = folder()
    assert found is not None
    assert found.is_dir()
    assert found.parent == tmp_path / "cache" / "entente" / "compiled"
    assert folder() == found
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "rules.py").write_text("first")
    monkeypatch.setattr(compiler, "_SOURCES", sources)
    first = folder()
    (sources / "rules.py").write_text("second")
    assert len({found, first, folder()}) == 3


def test_without_a_writable_folder_code_is_compiled_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert folder() is None
    monkeypatch.setattr(compiler, "_folder", lambda: None)
    assert compiler.compiled(doubled)(21) == 42


def test_the_compilers_own_folder_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = compiler.numba.config.CACHE_DIR
    monkeypatch.setattr(compiler, "_folder", lambda: tmp_path)
    assert compiler.compiled(doubled)(4) == 8
    assert before == compiler.numba.config.CACHE_DIR
    assert list(tmp_path.rglob("*.nbi"))
