"""Record a run as the demo that comes with the package: ``python -m cluster.explore.record RUN``."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

from cluster.explore.document import run_document
from cluster.explore.page import RECORDED
from cluster.runs.folder import strict_json
from cluster.runs.progress_bars import progress_bars
from grpo_core.checkpoints.atomic_write import write_atomically

MOST_BYTES = 1_300_000  # of its traces in the page's text, so that the demo's page stays below 2 MB


def record(run_dir: Path) -> Path:
    """Replace the recorded demo by a run; returns the file. Raises as ``run_document``."""
    with progress_bars() as add_bar:
        document = run_document(run_dir, add_bar, MOST_BYTES)
    out = Path(__file__).parent / RECORDED
    out.parent.mkdir(exist_ok=True)
    write_atomically(out, gzip.compress(strict_json(document), 9, mtime=0))
    return out


if __name__ == "__main__":
    print(f"written to {record(Path(sys.argv[1]))}")
