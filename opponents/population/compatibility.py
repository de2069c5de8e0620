"""Check that an outside policy can play in a run, and convert its weights to what the run's engines load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError

from grpo_core.checkpoints.folders import MANIFEST
from grpo_core.checkpoints.store import load_checkpoint
from grpo_core.errors import CheckpointError, one_line
from grpo_core.files import read_bytes, read_json
from grpo_core.models.lora import adapter_config_of, folder_payload, merged
from grpo_core.models.named_tensors import named_tensors, to_safetensors
from grpo_core.models.pretrained import ADAPTER, load_model, read_payload, saved_specialists, weights_payload
from opponents.population.importer import Source, base_of
from opponents.population.member import PopulationError
from opponents.population.weights import read_weights

_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def compatible_weights(
    source: Source, run: Path, country: str | None = None, advance: Callable[[int], object] | None = None
) -> bytes:
    """The policy as safetensors for the run's engines: its adapter if that has the same base, else full weights.

    ``country`` selects the specialist of a checkpoint that has one per role. ``advance`` is called with 1 after each
    of three steps, which may take seconds: files compared, the run's model loaded, the policy's weights checked.

    Raises:
        PopulationError: another architecture, shape or tokenizer, no specialist for this role, or a file that is
            not as its population recorded.
        CheckpointError: a checkpoint or model that is damaged.
    """
    try:
        return _compatible_weights(source, run, country, advance or (lambda _: None))
    except (OSError, ValueError, SafetensorError) as error:
        raise PopulationError(
            f"{source.model} cannot be read: {one_line(error, 200)}; if its run is training, which prunes checkpoints, "
            "try again"
        ) from error


def _compatible_weights(source: Source, run: Path, country: str | None, advance: Callable[[int], object]) -> bytes:
    base = base_of(run)
    if (source.model / MANIFEST).exists():
        load_checkpoint(source.model)  # verifies every file's checksum
    _check_tokenizers(source.model, base, run)
    advance(1)
    reference = named_tensors(load_model(base, shared_base=True)[0])  # the weights that engines start with
    advance(1)
    adapter = _adapter_of(source, country)
    if adapter is not None:
        try:
            merged(reference, adapter)
        except CheckpointError:
            pass  # it has another base: it joins merged with that one
        else:
            advance(1)
            return adapter
    whole = _whole(source, adapter)
    try:
        read_payload(whole, reference)
    except CheckpointError as error:
        raise PopulationError(f"{source.model} cannot play in {run}: {error}") from error
    advance(1)
    return whole


def _adapter_of(source: Source, country: str | None) -> bytes | None:
    """The policy's adapter; None if it has full weights."""
    if source.member is not None:
        data = read_weights(source.member[1], source.member[0])
        return None if adapter_config_of(data) is None else data
    folder = source.model / ADAPTER
    if roles := saved_specialists(source.model):
        if country not in roles:
            raise PopulationError(
                f"{source.model} has specialists, for {', '.join(roles)}: say with --country whose joins"
            )
        folder /= country
    return folder_payload(folder) if folder.is_dir() else None


def _whole(source: Source, adapter: bytes | None) -> bytes:
    """The full weights of a policy, in the dtype of its model's folder."""
    if source.member is not None and adapter is None:
        return read_weights(source.member[1], source.member[0])
    config = read_json(source.model / "config.json")
    named = (config.get("dtype") or config.get("torch_dtype") or "float32") if isinstance(config, dict) else None
    dtype = getattr(torch, str(named), None)
    if dtype not in _DTYPES:
        raise PopulationError(f"{source.model}: its dtype in config.json is none of {', '.join(map(str, _DTYPES))}")
    model, _ = load_model(source.model, dtype, shared_base=adapter is not None)
    is_base = source.member is not None or bool(saved_specialists(source.model))
    if adapter is None or not is_base:  # loading a checkpoint merged its one adapter
        return weights_payload(model)
    return to_safetensors(merged(named_tensors(model), adapter))


def _check_tokenizers(theirs: Path, ours: Path, run: Path) -> None:
    """Refuse another tokenizer: all policies of a game read the same prompt ids."""
    both = [folder / "tokenizer.json" for folder in (theirs, ours)]
    if all(path.is_file() for path in both) and read_bytes(both[0]) != read_bytes(both[1]):
        raise PopulationError(f"{theirs} has another tokenizer than {run}: the same ids would mean other words to it")
