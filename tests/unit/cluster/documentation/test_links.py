"""Links as they are rewritten for the site, and those of the real pages as a hosted repository resolves them."""

from __future__ import annotations

import itertools
import re
import urllib.parse
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from cluster.documentation.links import linked_paths, rewrite_links
from cluster.documentation.repository import markdown_files
from cluster.documentation.site import DocumentationError, make_site
from tests.paths import ROOT

PLACES = {
    "docs/other.md": "docs/other.md",
    "code/file.py": "api/code.md#code.file",
    "data/a.yaml": "files/data/a.yaml.md",
}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("[a](other.md)", "[a](other.md)"),
        ("[a](./other.md#part)", "[a](other.md#part)"),
        ("[`a`](../code/file.py)", "[`a`](../api/code.md#code.file)"),
        ("[a](../code/file.py#L10)", "[a](../api/code.md#code.file)"),
        ("![a](../data/a.yaml)", "![a](../files/data/a.yaml.md)"),
        ("[a](https://example.org/other.md)", "[a](https://example.org/other.md)"),
        ("[a](mailto:me@example.org)", "[a](mailto:me@example.org)"),
        ("[a](#part)", "[a](#part)"),
        ("| [a](other.md) | [b](../code/file.py) |", "| [a](other.md) | [b](../api/code.md#code.file) |"),
    ],
)
def test_links_lead_to_the_site_s_places(written: str, expected: str) -> None:
    assert rewrite_links(written, "docs/page.md", PLACES.__getitem__) == expected


def test_linked_paths_are_from_the_root() -> None:
    text = "[a](other.md) [b](../code/file.py#L10) [c](https://example.org/x) [d](#part) [e](../README.md)"
    assert list(linked_paths(text, "docs/page.md")) == ["docs/other.md", "code/file.py", "README.md"]


@pytest.mark.parametrize("target", ["missing.md", "grpo_core/missing.py", "../outside.md"])
def test_a_link_that_leads_nowhere_is_refused_by_name(tmp_path: Path, target: str) -> None:
    root = tmp_path / "repository"
    root.mkdir()
    (tmp_path / "outside.md").write_text("# Outside\n")
    (root / "README.md").write_text(f"# Title\n\n[a]({target})\n")
    with pytest.raises(DocumentationError, match=rf"README\.md links to {re.escape(target)}, which does not exist"):
        make_site(root)


def test_what_pages_link_to_is_in_the_site(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "# Title: more\n\n[m](grpo_core/deep/a.py) [p](grpo_core/deep) [y](grpo_core/a.yaml) [j](grpo_core/deep/b.json)"
        " [d](grpo_core/data/) [c](CHANGELOG.md) [k](CONTRIBUTING.md)"
        " [e](cluster/api/entente) [i](cluster/api/entente/__init__.py)\n"
    )
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        (tmp_path / name).write_text(f"# {name}\n")
    (tmp_path / "grpo_core/deep").mkdir(parents=True)
    (tmp_path / "grpo_core/data").mkdir()
    (tmp_path / "cluster/api/entente").mkdir(parents=True)
    (tmp_path / "cluster/api/entente/__init__.py").write_text("")
    for name in ("__init__.py", "deep/__init__.py", "deep/a.py", "deep/_private.py", "a.yaml", "deep/b.json"):
        (tmp_path / "grpo_core" / name).write_text("x: 1\n")
    (tmp_path / "grpo_core/data/c.json").write_text("{}")

    site = make_site(tmp_path)

    assert site.pages["README.md"].splitlines()[-1] == (
        "[m](api/grpo_core.deep.md#grpo_core.deep.a) [p](api/grpo_core.deep.md) [y](files/grpo_core/a.yaml.md)"
        " [j](grpo_core/deep/b.json) [d](files/grpo_core/data.md) [c](CHANGELOG.md) [k](CONTRIBUTING.md)"
        " [e](api/entente.md) [i](api/entente.md#entente)"
    )
    assert "\nx: 1\n" in site.pages["files/grpo_core/a.yaml.md"]
    assert "[grpo_core/data/c.json](../../grpo_core/data/c.json)" in site.pages["files/grpo_core/data.md"]
    assert set(site.files) == {"grpo_core/deep/b.json", "grpo_core/data/c.json"}
    assert "::: grpo_core.deep.a\n" in site.pages["api/grpo_core.deep.md"]
    assert "_private" not in site.pages["api/grpo_core.deep.md"]
    assert "::: entente\n" in site.pages["api/entente.md"]
    assert site.nav[0] == {"Entente": "README.md"}


def test_guides_come_before_the_pages_of_folders(tmp_path: Path) -> None:
    for page in ("README.md", "docs/training.md", "grpo_core/README.md"):
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).write_text(f"# {page}\n")
    assert make_site(tmp_path).nav[:3] == [
        {"Entente": "README.md"},
        {"Guides": [{"docs/training.md": "docs/training.md"}]},
        {"Parts": [{"grpo_core/README.md": "grpo_core/README.md"}]},
    ]


@pytest.mark.parametrize("page", markdown_files(ROOT))
def test_links_of_the_repository_hold_on_a_hosted_one(page: str) -> None:
    broken = []
    for target in _targets(ROOT / page):
        path, _, fragment = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        there = file.exists() and ROOT in file.resolve().parents
        if not there or (fragment and file.suffix == ".md" and fragment not in _anchors(file)):
            broken.append(target)
    assert broken == []


def test_every_page_with_links_is_looked_at() -> None:
    some = {"README.md", "CONTRIBUTING.md", "docs/cluster.md", "grpo_core/README.md", "docker/README.md"}
    assert some < set(markdown_files(ROOT))
    assert "../tests/benchmarks/RESULTS.md#how-a-run-ends" in _targets(ROOT / "docs/cluster.md")
    assert "tests/benchmarks/demo/learning_curves.png" in _targets(ROOT / "README.md")


def _tokens(file: Path) -> list[Token]:
    blocks = MarkdownIt().enable("table").parse(file.read_text(encoding="utf-8"))
    return [token for block in blocks for token in (block, *(block.children or ()))]


def _targets(file: Path) -> list[str]:
    found = [token.attrGet("href") or token.attrGet("src") for token in _tokens(file)]
    return [urllib.parse.unquote(str(target)) for target in found if target and not re.match(r"[a-z]+:", str(target))]


def _anchors(file: Path) -> set[str]:
    """Return the anchors that hosted repositories make of headings."""
    blocks = MarkdownIt().enable("table").parse(file.read_text(encoding="utf-8"))
    titles = [
        "".join(part.content for part in inline.children or () if part.type in ("text", "code_inline"))
        for heading, inline in itertools.pairwise(blocks)
        if heading.type == "heading_open"
    ]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
