"""Causal language models: random initialisation, Hugging Face folders, and safetensors payloads."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.utils.logging import disable_progress_bar, get_verbosity, set_verbosity, set_verbosity_error

from grpo_core.errors import CheckpointError
from grpo_core.models.folder_files import check_files, reason, some
from grpo_core.models.fsdp import whole
from grpo_core.models.lora import adapter_config_of, adapter_payload, has_adapters, merged_items, save_adapters
from grpo_core.models.named_tensors import from_safetensors, named_tensors, to_safetensors
from grpo_core.models.role_adapters import adapter_roles, save_role_adapters, saved_roles
from grpo_core.settings import PolicySettings

ADAPTER = "adapter"  # in a model's folder: the adapter, or a folder for each specialist
_ALIGNMENT = 64  # bytes; torch allocates tensors at multiples of it
_CLASSES = {"qwen3": (Qwen3Config, Qwen3ForCausalLM), "llama": (LlamaConfig, LlamaForCausalLM)}

# Initial deviation of the output rows. The hidden state is normed to length sqrt(hidden_size), so logits start with a
# deviation of 0.005 * sqrt(128) = 0.06, and the first samples are about uniform over the admissible ids.
_LM_HEAD_DEVIATION = 0.005


def make_small_model(
    settings: PolicySettings, vocab_size: int, *, eos_id: int, bos_id: int | None, pad_id: int | None, seed: int
) -> PreTrainedModel:
    """Make a small causal LM with random weights and untied embeddings; equal seeds give equal weights.

    Its initial distribution over any set of ids is about uniform.

    Raises:
        ValueError: ``hidden_size`` is not a multiple of ``head_dim``.
    """
    heads, rest = divmod(settings.hidden_size, settings.head_dim)
    if rest:
        raise ValueError(f"policy.hidden_size {settings.hidden_size} is not a multiple of head_dim {settings.head_dim}")
    config_class, model_class = _CLASSES[settings.architecture]
    config = config_class(
        vocab_size=vocab_size,
        hidden_size=settings.hidden_size,
        intermediate_size=settings.intermediate_size,
        num_hidden_layers=settings.layers,
        num_attention_heads=heads,
        # Two query heads share one key and value head, or more where that does not come out even: a smaller cache.
        num_key_value_heads=max(count for count in range(1, max(1, heads // 2) + 1) if heads % count == 0),
        head_dim=settings.head_dim,
        max_position_embeddings=settings.context_length,
        tie_word_embeddings=False,
        eos_token_id=eos_id,
        bos_token_id=bos_id,
        pad_token_id=pad_id,
        dtype=settings.dtype,
    )
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        model: PreTrainedModel = model_class(config)
        with torch.no_grad():
            model.lm_head.weight.normal_(std=_LM_HEAD_DEVIATION)
    for parameter in model.parameters():  # not model.to(): rotary frequencies stay in fp32, as after loading a folder
        parameter.data = parameter.data.to(getattr(torch, settings.dtype))
    return model.eval()


def add_tokens(model: PreTrainedModel, vocab_size: int, seed: int) -> None:
    """Give a model embeddings and outputs for a larger vocabulary, in place; those it has stay.

    New tokens are about equally likely among one another, as in ``make_small_model``; equal seeds give equal weights.
    """
    known = model.config.vocab_size
    if vocab_size <= known:
        return
    with torch.random.fork_rng(devices=()), torch.no_grad():
        torch.manual_seed(seed)
        model.resize_token_embeddings(vocab_size, mean_resizing=False)
        if not model.config.tie_word_embeddings:
            model.get_output_embeddings().weight[known:].normal_(std=_LM_HEAD_DEVIATION)


def empty_model(config: PretrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    """Make a causal LM without values, for weights that come later; memory is only taken as they are written."""
    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)
    model.to_empty(device="cpu")
    model.tie_weights()
    return model.eval()


def save_model(model: nn.Module, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write config, safetensors and tokenizer files; makes the folder if it is missing.

    With one adapter the model is written merged, and the adapter also into ``adapter/``. With specialists the shared
    base is written, and their adapters into ``adapter/<ROLE>/``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    disable_progress_bar()  # it would disturb the run's own display
    plain_model(model).save_pretrained(folder, state_dict=plain_tensors(model))
    if adapter_roles(model):
        save_role_adapters(model, folder / ADAPTER)
    elif has_adapters(model):
        save_adapters(model, folder / ADAPTER)
    tokenizer.save_pretrained(folder)


def load_model(
    folder: Path, dtype: torch.dtype = torch.float32, *, shared_base: bool = False
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a Hugging Face folder: only safetensors are read, nothing is downloaded, and no code of the folder runs.

    ``shared_base`` permits a folder with specialists and loads their base, which alone is not a trained policy.

    Raises:
        CheckpointError: a file is missing, damaged or of the wrong kind.
    """
    if not shared_base and (roles := saved_specialists(folder)):
        raise CheckpointError(
            f"{folder} holds specialists ({some(list(roles))}), and here one policy for all roles is needed: take one "
            "that was trained without policy.specialists"
        )
    tokenizer = load_tokenizer(folder)
    if not sys.stderr.isatty():
        disable_progress_bar()  # its bar of loaded weights is noise in a log
    try:
        with _quiet():
            model, report = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=dtype,
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
                trust_remote_code=False,  # else it asks at the terminal
            )
    except Exception as error:  # transformers checks little of a configuration, so that any kind may come of it
        raise CheckpointError(f"{folder} cannot be loaded as a causal LM: {reason(error)}") from error
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        names = sorted(str(name) for name in report.get(kind) or ())
        if names:
            raise CheckpointError(
                f"{folder}: weights do not fit config.json ({kind.replace('_', ' ')}: {some(names)}); "
                "take both files from the same checkpoint"
            )
    size = max(tokenizer.get_vocab().values(), default=-1) + 1  # ids need not be without gaps
    if size > model.config.vocab_size:
        raise CheckpointError(
            f"{folder}: the tokenizer has {size} tokens, the model {model.config.vocab_size}; "
            "take both from the same checkpoint"
        )
    _align(model)
    return model.eval(), tokenizer


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers' warnings off the terminal: they quote the folder's files, and our own errors say the same."""
    before = get_verbosity()
    set_verbosity_error()
    try:
        yield
    finally:
        set_verbosity(before)


def _align(model: nn.Module) -> None:
    """Copy loaded weights that are not aligned as torch allocates tensors: views of the mapped file.

    There MKL may choose another kernel, so a resumed learner would compute other bits than an uninterrupted one.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.data_ptr() % _ALIGNMENT:
            tensor.data = tensor.data.clone()


def saved_specialists(folder: Path) -> tuple[str, ...]:
    """Return the roles that have their own adapters in a model's folder, sorted; empty if one policy plays all."""
    return saved_roles(folder / ADAPTER)


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Load a folder's tokenizer after checking the folder's files as ``load_model`` does.

    Raises:
        CheckpointError: a file is missing, damaged or of the wrong kind.
    """
    check_files(folder)
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json", "tokenizer.model")):
        raise CheckpointError(f"{folder} has no tokenizer (tokenizer.json): copy the one the model was trained with")
    try:
        with _quiet():
            tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:  # as in load_model; tokenizers raises nothing more specific
        raise CheckpointError(f"the tokenizer of {folder} cannot be loaded: {reason(error)}") from error
    return tokenizer


def weights_payload(model: nn.Module) -> bytes:
    """Return the ``plain_tensors`` as one safetensors file in memory."""
    return to_safetensors(plain_tensors(model))


def policy_payload(model: nn.Module) -> bytes:
    """Return the payload for engines and snapshots: the adapter if the model has one, else all weights.

    For specialists use ``role_adapter_payloads``.
    """
    return adapter_payload(model) if has_adapters(model) else weights_payload(model)


def plain_model(model: nn.Module) -> PreTrainedModel:
    """Return the Hugging Face model without its adapters' wrapper."""
    inner: Any = model
    plain: PreTrainedModel = inner.get_base_model() if has_adapters(model) else inner
    return plain


def plain_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the ``plain_items`` by name."""
    return dict(plain_items(model))


def plain_items(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the plain model's tensors with their names: one adapter is merged; for specialists, the shared base.

    Sharded tensors are gathered one after the other, so every rank must run through all of them.
    """
    if adapter_roles(model):
        yield from merged_items(model, None)
    elif has_adapters(model):
        yield from merged_items(model)
    else:
        for name, tensor in named_tensors(plain_model(model)).items():
            yield name, whole(tensor.detach())


def read_payload(payload: bytes | memoryview, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of ``weights_payload`` bytes, checked against those they replace.

    Raises:
        CheckpointError: the bytes are not safetensors or are an adapter, or names or shapes differ.
    """
    if adapter_config_of(payload) is not None:
        raise CheckpointError("this is an adapter, where full weights are wanted")
    tensors = from_safetensors(payload)
    if tensors.keys() != like.keys():
        missing, extra = sorted(like.keys() - tensors.keys()), sorted(tensors.keys() - like.keys())
        raise CheckpointError(
            f"weights of another model: missing {some(missing)}, unexpected {some(extra)}; "
            "publish from the model the engine was started with"
        )
    for name, tensor in tensors.items():
        if tensor.shape != like[name].shape:
            raise CheckpointError(
                f"weights of another shape: {name} is {tuple(tensor.shape)}, expected {tuple(like[name].shape)}"
            )
    return tensors
