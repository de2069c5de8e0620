"""Checks the files of a Hugging Face folder before a library opens them: they may come from anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from grpo_core.errors import CheckpointError, one_line
from grpo_core.files import MIB, check_regular, path_inside, read_json

_LONGEST_TEXT = 512 * MIB
_LONGEST_NAME = 300  # characters of a tensor's name
INDEX = "model.safetensors.index.json"
_LARGEST_SIZE = 1 << 16  # of what a small model's configuration may say without a tensor of that size
_SIZES = re.compile(r"(hidden_size|intermediate_size|vocab_size|heads?|dim|experts|labels|embd|inner)$")
_POSITIONS = re.compile(r"(max_position_embeddings|n_positions|n_ctx)$")
_POSITION_TENSOR = re.compile(r"(^|\.)(wpe|pos_emb|positions?_embed(ding)?s?(_layer)?|embed_positions)\.weight$")
_MOST_POSITIONS = 1 << 24  # of a model with rotary positions, for which no table is made
# These make a table of all positions, or a mask that grows with the square of their number.
_TABLE_MAKERS = (
    *("gpt_neo", "gpt_bigcode", "openai-gpt", "clvp"),  # masks
    *("gpt2", "opt", "biogpt", "codegen", "gptj", "ctrl", "xglm"),
)
_MOST_TABLED = 1 << 14  # positions of such a model, if its weights have no table; published ones have 2048
_LAYERS = re.compile(r"(num_hidden_layers|num_layers|n_layers?|num_decoder_layers|num_encoder_layers)$")


def check_files(folder: Path) -> None:
    """Check configuration and weights: they are there, whole, and no size in one is without a tensor in the other.

    transformers builds the model that the configuration describes before it looks at the weights, so a configuration of
    a billion layers would keep it busy for ever.

    Raises:
        CheckpointError: a file is missing, damaged, of the wrong kind or outside the folder, or a size does not fit.
    """
    config = _checked_config(folder)
    _check_texts(folder)
    shapes = _checked_shapes(folder)
    largest = max((size for _, shape in shapes for size in shape), default=0)
    _check_vocabulary(folder, max(largest, _LARGEST_SIZE))
    limits = {
        _LAYERS: len(shapes),
        _SIZES: max(largest, _LARGEST_SIZE),
        _POSITIONS: _most_positions(shapes, config.get("model_type")),
    }
    for name, number in _numbers(config):
        limit = next((limit for names, limit in limits.items() if names.search(name)), None)
        if limit is not None and number > limit:
            raise CheckpointError(
                f"{folder}: weights do not fit config.json ({one_line(name, 40)} is {one_line(number, 20)}, with "
                f"{len(shapes)} tensors that allow {limit} at most); take both files from the same checkpoint"
            )


def some(names: list[str]) -> str:
    """The first three names, short, and how many more there are."""
    shown = ", ".join(one_line(name, 80) for name in names[:3])
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "") if names else "none"


def reason(error: BaseException) -> str:
    """The first line of an error of a library, or its class."""
    first = next((line for line in str(error)[:10_000].splitlines() if line.strip()), "")
    return one_line(first, 200) or type(error).__name__


def _checked_config(folder: Path) -> Mapping[str, Any]:
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder: give one in Hugging Face layout")
    path = folder / "config.json"
    try:
        config = read_json(path)
    except FileNotFoundError:
        raise CheckpointError(f"{folder} has no config.json: not a Hugging Face model folder") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON: {reason(error)}") from error
    classes = config.get("architectures") if isinstance(config, dict) else None
    if not isinstance(classes, list) or not classes or not str(classes[0]).endswith("ForCausalLM"):
        shown = one_line(classes, 80)
        raise CheckpointError(f"{path} names {shown} as its classes: a ...ForCausalLM is needed")
    return config  # type: ignore[no-any-return]


def _check_texts(folder: Path) -> None:
    """The libraries read all of these as a whole; a native one ends the process if that does not fit in memory."""
    for path in folder.iterdir():
        if path.suffix in (".json", ".txt", ".jinja", ".model") and not path.is_dir():
            try:
                check_regular(path, _LONGEST_TEXT)
            except OSError as error:
                raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error


def _check_vocabulary(folder: Path, limit: int) -> None:
    """Refuse ids beyond any embedding: tokenizers takes time and memory for every number up to the largest id."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return
    try:
        document = read_json(path, _LONGEST_TEXT)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON: {reason(error)}") from error
    model = document.get("model") if isinstance(document, dict) else None
    words = model.get("vocab") if isinstance(model, dict) else None
    ids = list(words.values()) if isinstance(words, dict) else []
    added = document.get("added_tokens") if isinstance(document, dict) else None
    ids += [token.get("id") for token in added if isinstance(token, dict)] if isinstance(added, list) else []
    largest = max((number for number in ids if isinstance(number, int | float)), default=0)
    if largest >= limit:
        shown = one_line(largest, 20)
        raise CheckpointError(
            f"{path} has a token with the id {shown}, and the model's tensors have {limit} rows at most"
        )


def _most_positions(shapes: list[tuple[str, list[int]]], model_type: object) -> int:
    """The rows of the table of positions; without one, what takes little time or memory in such a model."""
    rows = [shape[0] for name, shape in shapes if shape and _POSITION_TENSOR.search(name)]
    return max(rows, default=_MOST_TABLED if model_type in _TABLE_MAKERS else _MOST_POSITIONS)


def _checked_shapes(folder: Path) -> list[tuple[str, list[int]]]:
    """Open every safetensors file, to name one that is absent or truncated; return names and shapes of all tensors."""
    shapes: list[tuple[str, list[int]]] = []
    for name in sorted(weight_files(folder)):
        try:
            path = path_inside(folder, name)
            check_regular(path)
        except FileNotFoundError:
            pickled = sorted(file.name for pattern in ("*.bin", "*.pt", "*.pth") for file in folder.glob(pattern))
            hint = f"; {some(pickled)} is pickled and never read: convert it to safetensors" if pickled else ""
            raise CheckpointError(f"{folder} has no {name}{hint}") from None
        except OSError as error:
            raise CheckpointError(f"{folder / name} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise CheckpointError(f"{folder / INDEX} is damaged: {error}") from None
        try:
            with safe_open(path, framework="np") as file:
                names = list(file.keys())
                shapes += [(tensor, file.get_slice(tensor).get_shape()) for tensor in names]
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{path} is damaged or truncated: {reason(error)}; copy it again") from error
        if odd := [tensor for tensor in names if not tensor.isprintable() or len(tensor) > _LONGEST_NAME]:
            raise CheckpointError(f"{path} has a tensor with the name {one_line(repr(odd[0]), 80)}, which no model has")
    return shapes


def weight_files(folder: Path) -> set[str]:
    """Name the files that hold the model's weights.

    Raises:
        CheckpointError: their index is damaged.
    """
    index = folder / INDEX
    if not index.is_file():
        return {"model.safetensors"}
    try:
        names = set(read_json(index)["weight_map"].values())
        if not all(isinstance(name, str) for name in names):
            raise TypeError("a name of a file is no text")
    except OSError as error:
        raise CheckpointError(f"{index} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{index} is not a safetensors index: {reason(error)}") from error
    return names


def _numbers(table: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, float]]:
    """The numbers in a configuration and the tables within it, by their key."""
    for name, value in table.items():
        if isinstance(value, dict) and depth < 8:
            yield from _numbers(value, depth + 1)
        elif isinstance(value, int | float):
            yield name, value
