"""What of the repository belongs to the site: its Markdown files, and the packages of the four floors."""

from __future__ import annotations

from pathlib import Path

FLOORS = ("grpo_core", "services", "opponents", "cluster")
INTERFACE = "entente"  # what users import
_INTERFACE_FOLDER = "cluster/api/entente"
_WITH_PAGES = ("docs", *FLOORS, "docker", "tests/benchmarks")


def markdown_files(root: Path) -> list[str]:
    """Return the paths of the pages: the top-level ones, the guides, then those of each folder in its order."""
    return [
        file.relative_to(root).as_posix()
        for files in (root.glob("*.md"), *(root.glob(f"{folder}/**/*.md") for folder in _WITH_PAGES))
        for file in sorted(files)
    ]


def package_name(folder: str) -> str:
    """Return the name under which the package in this folder, a path from the root, is imported."""
    return INTERFACE if folder == _INTERFACE_FOLDER else folder.replace("/", ".")


def packages(root: Path) -> dict[str, list[str]]:
    """Return the name of every package with the modules in it, private ones and ``__main__`` left out."""
    found = {}
    for floor in FLOORS:
        for init in sorted(root.glob(f"{floor}/**/__init__.py")):
            package = package_name(init.parent.relative_to(root).as_posix())
            modules = sorted(file.stem for file in init.parent.glob("*.py") if not file.stem.startswith("_"))
            found[package] = [f"{package}.{module}" for module in modules]
    return found
