"""Makes an exported policy the champion that is shipped: ``python -m cluster.export.champion FOLDER``.

The folder is one of ``entente export RUN --license NAME --out FOLDER``. It is checked, copied into
``opponents/champion/weights`` of this source tree, and listed with checksums in the manifest beside it. Commit both.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from cluster.errors import RunError
from cluster.export.policy_folder import PROMPT
from cluster.runs.folder import EXPORTED, sampling_of, strict_json
from grpo_core.checkpoints.atomic_write import write_atomically, writing
from grpo_core.errors import EntenteError
from grpo_core.files import check_regular, read_json, read_text
from opponents.champion.shipped import (
    LARGEST_BYTES,
    MANIFEST,
    ROOM,
    WEIGHTS,
    Champion,
    manifest_of,
    shipped_champion,
)
from services.environments.registry import DEFAULT_WORLD

CARD = "README.md"
_SHIPPED = (".safetensors", ".json", ".md")  # and the prompt that the card quotes
_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_LICENSE = re.compile(r"^license: *\S", re.MULTILINE)


def release(exported: Path, room: Path = ROOM) -> Champion:
    """Check an exported policy and put it in the place of the shipped one; the old one stays if a check fails.

    Raises:
        RunError: the folder does not fit: no exported policy, no card or licence, too large, or a file of another kind.
        CheckpointError: the model cannot be loaded.
        ConfigError: its settings cannot be used.
        StorageError: the files cannot be written.
    """
    version = check_release(exported)
    draft, shipped = room / f".{WEIGHTS}.draft", room / WEIGHTS
    with writing(draft):
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        for path in sorted(exported.iterdir()):
            shutil.copyfile(path, draft / path.name)
    manifest = manifest_of(draft, version)
    with writing(shipped):
        shutil.rmtree(shipped, ignore_errors=True)
        draft.rename(shipped)
    write_atomically(room / MANIFEST, strict_json(manifest, indent=2) + b"\n")
    return shipped_champion(room)


def check_release(exported: Path) -> int:
    """Return the version of an exported policy that can be shipped. Raises as ``release``."""
    _check_files(exported)
    _check_card(exported / CARD)
    try:
        made = read_json(exported / EXPORTED)
        version, country = made["version"], made["country"]
    except (OSError, ValueError, KeyError, TypeError):
        raise RunError(f"{exported} is no exported policy (no {EXPORTED}): write it by entente export") from None
    if type(version) is not int or version < 0 or country is not None:
        raise RunError(f"{exported}: the champion plays all powers and has a version, and {EXPORTED} says otherwise")
    if (world := sampling_of(exported).world.name) != DEFAULT_WORLD:
        raise RunError(f"{exported} was trained in the world {world}, and the champion plays {DEFAULT_WORLD}")
    from grpo_core.models.pretrained import load_model  # torch takes seconds to import

    load_model(exported)
    return version


def _check_files(exported: Path) -> None:
    if not exported.is_dir():
        raise RunError(f"{exported} is no folder; name one that entente export wrote")
    total = 0
    for path in sorted(exported.iterdir()):
        if path.suffix not in _SHIPPED and path.name != PROMPT:
            raise RunError(f"{path}: the champion's folder holds {', '.join(_SHIPPED)} and {PROMPT} alone; remove it")
        try:
            total += check_regular(path)
        except OSError as error:
            raise RunError(f"{path} cannot be shipped: {error.strerror}") from error
    if total > LARGEST_BYTES:
        raise RunError(
            f"{exported} has {total / 1e6:.1f} MB, and the champion may have {LARGEST_BYTES / 1e6:.0f} MB; "
            "train a smaller policy"
        )


def _check_card(card: Path) -> None:
    try:
        front = _FRONT_MATTER.match(read_text(card))
    except (OSError, ValueError):
        raise RunError(f"{card.parent} has no model card ({CARD}); write the folder by entente export") from None
    if front is None or not _LICENSE.search(front[1]):
        raise RunError(f"{card} names no licence; export the policy again with --license, e.g. --license apache-2.0")


def main(arguments: list[str]) -> int:
    """Release the folder that the arguments name; return the exit code."""
    if len(arguments) != 1:
        print("usage: python -m cluster.export.champion FOLDER", file=sys.stderr)
        return 2
    try:
        champion = release(Path(arguments[0]))
    except EntenteError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    size = sum(path.stat().st_size for path in champion.folder.iterdir())
    print(f"champion: version {champion.version}, {champion.checksum}, {size / 1e6:.2f} MB in {champion.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
