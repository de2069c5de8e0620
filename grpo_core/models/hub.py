"""Models by their name on the Hugging Face Hub: fetched once, then read from the local cache."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path, PurePath

from grpo_core.errors import CheckpointError, one_line
from grpo_core.models.folder_files import weight_files

# What a causal LM is loaded from; never pickled weights, and not the same weights in other formats.
_WANTED = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt")
_UNWANTED = ("*/*", "consolidated*")
_HUB_ID = re.compile(r"(?P<id>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})(@(?P<revision>[\w./-]{1,100}))?")
_ANSWER_S = 10.0  # for the Hub to say which files there are


def is_hub_name(path: str) -> bool:
    """Whether ``path`` has the form ``ORG/NAME[@REVISION]``; a relative folder may have it, too."""
    return _HUB_ID.fullmatch(path) is not None


def hub_model(path: str) -> str | None:
    """Return ``ORG/NAME`` where ``path`` is a name on the Hub, without its revision; None for a folder."""
    named = _HUB_ID.fullmatch(path)
    return None if named is None or Path(path).exists() else named["id"]


def without_folders(path: str) -> str:
    """Return the last part of a model's path on this machine; a name on the Hub stays whole."""
    return path if hub_model(path) is not None else PurePath(path).name


def model_folder(path: str) -> Path:
    """Return the folder of a model: ``path`` itself, or where the files of ``ORG/NAME[@REVISION]`` are after fetching.

    A model that is in huggingface_hub's cache is taken as it is there, without a network; name a revision, or run
    ``hf download``, for a newer one.

    Raises:
        CheckpointError: there is neither such a folder nor such a model, or it cannot be fetched; one line says how.
    """
    folder = Path(path)
    named = _HUB_ID.fullmatch(path)
    if folder.exists() or named is None:
        return folder
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    model, revision = named["id"], named["revision"]
    try:
        with suppress(LocalEntryNotFoundError):
            cached = _snapshot(model, revision, from_cache=True)
            if all((cached / name).is_file() for name in weight_files(cached)):  # others may have fetched a part of it
                return cached
        return _snapshot(model, revision, from_cache=False)
    except GatedRepoError:
        reason = "the Hub asks for an agreement: accept it on the model's page, and export HF_TOKEN"
    except RevisionNotFoundError:
        reason = f"{model} has no revision {revision} on the Hub"
    except RepositoryNotFoundError:
        reason = "the Hub has no model of that name, or a private one: check the name, and export HF_TOKEN"
    except LocalEntryNotFoundError:
        at = f" --revision {revision}" if revision else ""
        reason = (
            f"the Hub cannot be reached: where there is a network, run hf download {model}{at} (into the same "
            "HF_HOME), or copy the model's folder here and name it"
        )
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = f"the Hub's answer cannot be used: {one_line(error, 200)}"
    raise CheckpointError(f"there is no folder {path}, and {reason}")


def _snapshot(model: str, revision: str | None, *, from_cache: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

    if not sys.stderr.isatty():
        disable_progress_bars()
    return Path(
        snapshot_download(
            model,
            revision=revision,
            allow_patterns=list(_WANTED),
            ignore_patterns=list(_UNWANTED),
            etag_timeout=_ANSWER_S,
            local_files_only=from_cache,
        )
    )
