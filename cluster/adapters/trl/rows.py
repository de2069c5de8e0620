"""Episodes as rows of TRL's loss: a turn is a row, with its own prompt, its mask and its advantage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from grpo_core.batching.microbatches import training_turns
from grpo_core.types import Episode, FloatArray, Turn

Rows = dict[str, Tensor]


def loss_rows(episodes: Sequence[Episode], turn_advantages: FloatArray, parts: int) -> list[Rows]:
    """Make the inputs of TRL's loss, ``parts`` micro-batches of about equally many turns, in episode order.

    ``admissible`` (C, 3) has a line (row, position in the completion, id) for each id that a mask admitted; tokens
    without a line were sampled from the whole vocabulary. ``share`` is the part of the micro-batch in a mean over rows,
    times ``parts``; ``token_share`` the same for a mean over trained tokens. Turns without a trained token are left
    out, as by our learner.

    Raises ValueError for a turn that our learner would refuse, and for fewer turns with trained tokens than ``parts``.
    """
    all_turns = [turn for episode in episodes for turn in episode.turns]
    learned = [each.turn for each in training_turns(episodes, learner_version=0)]
    if len(learned) < parts:
        raise ValueError(f"{len(learned)} turns with a choice do not fill {parts} micro-batches; play more games")
    tokens = sum(int(all_turns[index].trained_mask.sum()) for index in learned)
    rows = []
    for chosen in np.array_split(np.asarray(learned), parts):
        turns = [all_turns[index] for index in chosen]
        own_tokens = sum(int(turn.trained_mask.sum()) for turn in turns)
        rows.append(
            padded_turns(turns)
            | {
                "temperature": torch.tensor([turn.temperature for turn in turns]),
                "admissible": torch.from_numpy(
                    np.concatenate([_admissible(row, turn) for row, turn in enumerate(turns)])
                ),
                "advantages": torch.from_numpy(turn_advantages[chosen]),
                "num_items_in_batch": torch.tensor(tokens),
                "share": torch.tensor(len(turns) * parts / len(learned)),
                "token_share": torch.tensor(own_tokens * parts / tokens),
            }
        )
    return rows


def padded_turns(turns: Sequence[Turn]) -> Rows:
    """Pad ids, masks and behaviour log-probabilities of turns to (B, T): prompts on the left, completions on the right.

    ``tool_mask`` excludes forced tokens from the loss, as it does in TRL for tokens that were not sampled.
    """
    prompts, completions = [turn.prompt_ids for turn in turns], [turn.completion_ids for turn in turns]
    return {
        "prompt_ids": _padded(prompts, "left").long(),
        "prompt_mask": _padded(map(np.ones_like, prompts), "left").long(),
        "completion_ids": _padded(completions).long(),
        "completion_mask": _padded(map(np.ones_like, completions)).long(),
        "tool_mask": _padded(turn.trained_mask for turn in turns).long(),
        "old_per_token_logps": _padded(turn.logprobs for turn in turns),
    }


def _admissible(row: int, turn: Turn) -> NDArray[np.int64]:
    positions = np.flatnonzero(turn.trained_mask)
    counts = np.diff(turn.admissible_offsets) if len(turn.admissible_offsets) else np.zeros(len(positions), np.int64)
    at = np.repeat(positions, counts)
    return np.stack([np.full(len(at), row), at, turn.admissible_ids], axis=1).astype(np.int64)


def _padded(rows: Iterable[NDArray[Any]], side: str = "right") -> Tensor:
    return pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True, padding_side=side)


def masked_logits(logits_BTV: Tensor, rows: Mapping[str, Tensor]) -> Tensor:
    """Divide by the temperature, and leave each position that was sampled under a mask only its admissible ids."""
    scaled_BTV = logits_BTV.float() / rows["temperature"].to(logits_BTV.device)[:, None, None]
    row_C, position_C, id_C = rows["admissible"].to(logits_BTV.device).unbind(1)
    refused_BTV = torch.zeros_like(scaled_BTV, dtype=torch.bool)
    refused_BTV[row_C, position_C] = True
    refused_BTV[row_C, position_C, id_C] = False
    return scaled_BTV.masked_fill(refused_BTV, -torch.inf)
