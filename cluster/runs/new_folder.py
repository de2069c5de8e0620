"""A new folder that is there whole, or not at all."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from cluster.errors import RunError
from grpo_core.checkpoints.atomic_write import writing


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a draft beside ``folder``, which gets its name at the end of the block; an error removes it.

    Drafts of the same folder that killed processes of this machine have left are removed first.

    Raises RunError if the folder exists, StorageError if it cannot be made.
    """
    if folder.exists() or folder.is_symlink():
        raise RunError(f"{folder} is there already; choose another folder, or remove it")
    draft = folder.with_name(f".{folder.name}.draft-{os.getpid()}-{socket.gethostname()}")
    try:
        with writing(folder):
            _sweep(folder)
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
        yield draft
        with writing(folder):
            draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove drafts whose process is gone; on a shared disk those of other machines are left to them."""
    name = re.compile(rf"\.{re.escape(folder.name)}\.draft-(?P<process>\d+)-{re.escape(socket.gethostname())}")
    for other in folder.parent.iterdir() if folder.parent.is_dir() else ():
        found = name.fullmatch(other.name)
        if found is not None and not psutil.pid_exists(int(found["process"])):
            shutil.rmtree(other, ignore_errors=True)
