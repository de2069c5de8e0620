"""All pages and files of the site, made from the repository; MkDocs gets them from ``hook``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from cluster.documentation.links import linked_paths, rewrite_links
from cluster.documentation.program_pages import command_line_page, configuration_page, metrics_page, package_page
from cluster.documentation.repository import FLOORS, INTERFACE, markdown_files, package_name, packages
from grpo_core.errors import EntenteError

_AS_THEY_ARE = {".png", ".svg", ".json"}  # what a browser shows; other files become pages
_ABOUT_THE_PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md")
_GUIDES = "docs/"
_RESULTS = "tests/benchmarks/"


class DocumentationError(EntenteError, ValueError):
    """A page whose links lead nowhere."""


@dataclass(frozen=True, slots=True)
class Site:
    """What MkDocs builds; paths are from the site's root, with slashes."""

    pages: dict[str, str] = field(default_factory=dict)  # path (.md) -> Markdown
    files: dict[str, Path] = field(default_factory=dict)  # path -> the file that is copied there
    nav: list[Any] = field(default_factory=list)  # as in mkdocs.yml


def make_site(root: Path) -> Site:
    """Make the site of the repository in this folder.

    Pages keep their paths, so that links between them and to pictures hold in both places. Links to code lead to the
    API, and those to other files to pages that show them. Raises DocumentationError for a link that leads nowhere.
    """
    found = packages(root)
    site = Site()
    texts = {page: (root / page).read_text(encoding="utf-8") for page in markdown_files(root)}
    for page, text in texts.items():
        for path in linked_paths(text, page):
            if not (root / path).exists() or path.startswith(".."):
                raise DocumentationError(f"{page} links to {path}, which does not exist; correct the link")
            _add_linked(site, root, path, texts)
        site.pages[page] = rewrite_links(text, page, lambda path: _site_path(path, root))
    generated = {"Configuration": configuration_page, "Command line": command_line_page, "Metrics": metrics_page}
    reference = {title: f"{title.lower().replace(' ', '-')}.md" for title in generated}
    site.pages.update({reference[title]: page() for title, page in generated.items()})
    site.pages.update({_package_path(package): package_page(package, modules) for package, modules in found.items()})
    site.nav.extend(_nav(texts, reference, list(found)))
    return site


def _add_linked(site: Site, root: Path, path: str, texts: dict[str, str]) -> None:
    """Add the file or folder that a page links to, unless it is a page or code with a place of its own."""
    if path in texts or _code_path(path, root):
        return
    if (root / path).is_dir():
        files = [file for file in sorted((root / path).iterdir()) if file.is_file()]
        names = [f"{path}/{file.name}" for file in files]
        for name in names:
            _add_linked(site, root, name, texts)
        here = PurePosixPath(_site_path(path, root))
        rows = [f"- [{name}]({'../' * (len(here.parts) - 1)}{_site_path(name, root)})" for name in names]
        site.pages[str(here)] = "\n".join((f"# {path}", "", *rows))
    elif PurePosixPath(path).suffix in _AS_THEY_ARE:
        site.files[path] = root / path
    else:
        kind = {".yml": "yaml"}.get(PurePosixPath(path).suffix, PurePosixPath(path).suffix.removeprefix("."))
        text = (root / path).read_text(encoding="utf-8").rstrip()
        site.pages[_site_path(path, root)] = f"# {path}\n\n`````{kind}\n{text}\n`````\n"


def _site_path(path: str, root: Path) -> str:
    if code := _code_path(path, root):
        return code
    if PurePosixPath(path).suffix in {".md", *_AS_THEY_ARE}:
        return path
    return f"files/{path}.md"


def _code_path(path: str, root: Path) -> str | None:
    """Return where the API describes a package or module, or None for anything else."""
    module = PurePosixPath(path)
    if module.parts[0] not in FLOORS:
        return None
    if (root / path / "__init__.py").is_file():
        return _package_path(package_name(path))
    if module.suffix == ".py" and (root / module.parent / "__init__.py").is_file():
        package = package_name(str(module.parent))
        name = package if module.stem == "__init__" else f"{package}.{module.stem}"
        return f"{_package_path(package)}#{name}"
    return None


def _package_path(package: str) -> str:
    return f"api/{package}.md"


def _nav(texts: dict[str, str], reference: dict[str, str], found: list[str]) -> list[Any]:
    guides = [page for page in texts if page.startswith(_GUIDES)]
    folders = [page for page in texts if page.endswith("/README.md") and not page.startswith((_GUIDES, _RESULTS))]
    others = [page for page in texts if not page.endswith("README.md") and not page.startswith((_GUIDES, _RESULTS))]
    return [
        {"Entente": "README.md"},
        {"Guides": [{_title(texts[page]): page} for page in guides]},
        {"Parts": [{_title(texts[page]): page} for page in folders]},
        {
            "Reference": [
                *({title: path} for title, path in reference.items()),
                *({_title(texts[page]): page} for page in others if page not in _ABOUT_THE_PROJECT),
            ]
        },
        {
            "API": [
                *({package: _package_path(package)} for package in found if package == INTERFACE),
                *({floor: list(_floor_nav(floor, found))} for floor in FLOORS),
            ]
        },
        {"Results": [{_title(text): page} for page, text in texts.items() if page.startswith(_RESULTS)]},
        {"Project": [{_title(texts[page]): page} for page in _ABOUT_THE_PROJECT if page in texts]},
    ]


def _floor_nav(floor: str, found: list[str]) -> Iterator[Any]:
    yield {"Overview": _package_path(floor)}
    for package in found:
        if package.startswith(f"{floor}."):
            yield {package.removeprefix(f"{floor}."): _package_path(package)}


def _title(markdown: str) -> str:
    """Return the first heading, without what follows a colon."""
    heading = re.search(r"^# (.+)$", markdown, re.MULTILINE)
    if heading is None:
        raise DocumentationError("a page has no heading of the first level; add one")
    return heading[1].partition(":")[0].strip()
