"""From what a user names to the page on disk."""

from __future__ import annotations

import gzip
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from cluster.errors import RunError
from cluster.explore.compared import RESULTS, compared_pages, compared_runs
from cluster.explore.document import MOST_TRACE_BYTES, page_document, run_document
from cluster.runs.progress_bars import AddBar
from services.reports.explorer.explorer import explorer_page
from services.reports.page import write_page

DEMO = "demo"  # in place of a folder: the recorded run of the package
RECORDED = "recorded/demo.json.gz"  # below this folder
_PAGE = "explore.html"


def write_explorer(what: Path, out: Path | None, add_bar: AddBar) -> Path:
    """Write the page of a run's folder, a comparison's, or the recorded demo; return its path.

    Raises:
        RunError: there is nothing to explore.
        ReportError: the run's records cannot be read.
        StorageError: the page cannot be written.
    """
    document = document_of(what, add_bar)
    place = out or (Path(f"entente-{_PAGE}") if _is_demo(what) else what / _PAGE)
    return write_page(place, explorer_page(document))


def document_of(what: Path, add_bar: AddBar) -> dict[str, Any]:
    """Return the page's data. Raises as ``write_explorer``."""
    if _is_demo(what):
        return recorded_demo()
    if not what.is_dir():
        raise RunError(f"{what} is no folder; name a run's, one of entente compare, or: demo")
    if (what / RESULTS).is_file() and not (what / "config.toml").exists():
        pages = compared_pages(what)
        runs, left_out = compared_runs(what, add_bar, MOST_TRACE_BYTES)
        return {**page_document(what.resolve().name, runs, pages), "runs_left_out": left_out}
    return run_document(what, add_bar)


def recorded_demo() -> dict[str, Any]:
    """The document of the run that comes with the package."""
    packed = files("cluster.explore").joinpath(RECORDED).read_bytes()
    document: dict[str, Any] = msgspec.json.decode(gzip.decompress(packed))
    return document


def _is_demo(what: Path) -> bool:
    return str(what) == DEMO and not what.is_dir()
