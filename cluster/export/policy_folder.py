"""A run's policy as a folder that plain ``transformers`` and vLLM load, with its model card."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from cluster.configs.schema import Config
from cluster.configs.shareable import shareable
from cluster.errors import RunError
from cluster.export.model_card import CardFacts, model_card
from cluster.export.plain_card import plain_card
from cluster.runs.folder import EXPORTED, RunFolder
from cluster.runs.new_folder import new_folder
from cluster.runs.progress_bars import AddBar
from grpo_core.checkpoints.atomic_write import write_atomically, writing
from grpo_core.checkpoints.folders import (
    MANIFEST,
    OPTIMIZER,
    TRAINER_STATE,
    checkpoint_versions,
    fingerprint,
    passed_over,
    read_manifest,
)
from grpo_core.errors import CheckpointError, one_line
from grpo_core.files import ANY_SIZE, MIB, check_regular, read_json

PROMPT = "example_prompt.txt"
_NOT_SHARED = frozenset({MANIFEST, OPTIMIZER, TRAINER_STATE})


@dataclass(frozen=True, slots=True)
class ExportedPolicy:
    """An exported policy."""

    folder: Path
    version: int  # the updates that made it
    specialists: tuple[str, ...]  # the powers with an adapter in the folder; empty: one policy, merged
    passed_over: tuple[int, ...]  # newer checkpoints that are not whole


def export_policy(
    run_dir: Path,
    out: Path,
    add_bar: AddBar,
    *,
    version: int | None = None,
    country: str | None = None,
    license_name: str | None = None,
) -> ExportedPolicy:
    """Write a checkpoint of a run to the new folder ``out``: merged weights, tokenizer, chat template and model card.

    ``version`` is by default the newest checkpoint's. A run of specialists gives its shared base and, in
    ``adapter/<POWER>/``, seven adapters in peft's layout; with ``country`` that power's adapter is merged instead.
    ``license_name`` is what the card says, e.g. ``apache-2.0``; without it the card names no licence.

    Raises:
        RunError: there is no such run or checkpoint, its summary is damaged, ``country`` has no specialist, or ``out``
            exists.
        CheckpointError: a file of the checkpoint is missing or altered.
        ConfigError: the run's config.toml cannot be used.
        StorageError: ``out`` cannot be written.
    """
    run = RunFolder(run_dir)
    config = run.stored_config()
    chosen = _version(run, version)
    checkpoint = run.checkpoints / str(chosen)
    names = [name for name in read_manifest(checkpoint)["files"] if name not in _NOT_SHARED]
    powers = tuple(power for power in config.world.roles if f"adapter/{power}/adapter_config.json" in names)
    if country is not None and country not in powers:
        raise RunError(
            f"--country {country}: {run_dir} has no specialist for it"
            + (f"; there are {', '.join(powers)}" if powers else ", because one policy plays all countries")
        )
    summary = run.read_summary()
    facts = CardFacts(config, summary, chosen, country, () if country else powers, license_name)
    with new_folder(out) as draft:
        with_adapters = bool(powers) and country is None
        _copy(checkpoint, [name for name in names if with_adapters or not _of_adapter(name)], draft, add_bar)
        if country is not None:
            _merge(checkpoint, country, draft, add_bar)
        try:
            if config.world.saves_positions:
                card = model_card(facts)
            else:
                card = plain_card(config, summary, chosen, license_name)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            reason = one_line(repr(error), 200)
            raise RunError(f"{run.summary} is damaged ({reason}); remove it to export without its figures") from None
        write_atomically(draft / "README.md", card.encode())
        write_atomically(draft / PROMPT, _example(config, draft, country).encode())
        write_atomically(
            draft / EXPORTED, json.dumps(_made(config, summary, chosen, country), indent=2).encode() + b"\n"
        )
    newer = passed_over(run.path, chosen) if version is None else ()
    return ExportedPolicy(out, chosen, facts.specialists, newer)


def _version(run: RunFolder, version: int | None) -> int:
    versions = checkpoint_versions(run.path)
    if not versions:
        raise RunError(f"{run.path} has no whole checkpoint yet; export it after its first one")
    if version is None:
        return versions[-1]
    if version not in versions:
        raise RunError(f"{run.path} has no checkpoint {version}; it has {', '.join(map(str, versions))}")
    return version


def _of_adapter(name: str) -> bool:
    return PurePosixPath(name).parts[0] == "adapter"


def _copy(checkpoint: Path, names: list[str], draft: Path, add_bar: AddBar) -> None:
    """Copy files of a checkpoint, and compare the copies with its manifest."""
    listed = read_manifest(checkpoint)["files"]
    sizes = {name: max(1, listed[name]["bytes"] // MIB) for name in names}
    advance = add_bar("copying the policy, MiB", sum(sizes.values()))
    for name in names:
        target = draft / name
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        altered = CheckpointError(f"checkpoint {checkpoint}: {name} is not what was written (size or SHA-256 differs)")
        try:
            if check_regular(checkpoint / name, ANY_SIZE) != listed[name]["bytes"]:
                raise altered
        except OSError as error:
            raise CheckpointError(f"checkpoint {checkpoint}: {name} cannot be read: {error.strerror}") from error
        with writing(target):
            shutil.copyfile(checkpoint / name, target)
        if fingerprint(target) != listed[name]:
            raise altered
        advance(sizes[name])


def _merge(checkpoint: Path, country: str, draft: Path, add_bar: AddBar) -> None:
    """Replace the weights in ``draft``, the shared base, by those with a country's adapter merged."""
    import torch  # takes seconds

    from grpo_core.models.lora import folder_payload, merged
    from grpo_core.models.named_tensors import named_tensors
    from grpo_core.models.pretrained import ADAPTER, load_model

    advance = add_bar(f"merging the adapter of {country}", 2)
    dtype = getattr(torch, read_json(checkpoint / "config.json").get("dtype") or "float32")
    model, _ = load_model(checkpoint, dtype, shared_base=True)
    tensors = merged(named_tensors(model), folder_payload(checkpoint / ADAPTER / country))
    advance(1)
    with writing(draft):
        for stale in draft.glob("model*.safetensors*"):
            stale.unlink()
        model.save_pretrained(draft, state_dict=tensors)
    advance(1)


def _example(config: Config, folder: Path, country: str | None) -> str:
    """What the policy reads of the first position, up to its first choice."""
    from grpo_core.models.pretrained import load_tokenizer
    from opponents.players.llm_policy import TokenizedLanguage

    world = config.world
    tokens = TokenizedLanguage(world.language, load_tokenizer(folder), config.policy, config.inference)
    view, seat = world.probes([country or world.example_role or world.roles[0]])[0]
    text, slots = tokens.prompts.text(view, seat), tokens.slots(view, seat)
    return f"{text} {slots[0].note}" if slots and slots[0].note else text


def _made(config: Config, summary: dict[str, Any], version: int, country: str | None) -> dict[str, Any]:
    return {"version": version, "country": country, "summary": summary, "config": shareable(config)}
