"""Which turns answer one prompt, so that it goes through the model once for all of them.

The completions of a group often begin with the same prompt, which is longer than they are. The last token of a prompt
stays with each completion: its first token is predicted there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from grpo_core.types import IntArray

# Share of the tokens that may be left for it to be worth it: there are more kernels, and copies of keys and values.
WORTH = 0.75
# Limits of a chunk in relation to the budget: tokens, keys (each row has a copy of its prompt's), and elements of the
# mask. Copies and mask take less memory than the tokens that are left out.
_TOKENS, _KEYS, _MASK = 0.75, 2, 128


@dataclass(frozen=True, slots=True, eq=False)
class SharedPrompts:
    """The prompts of a micro-batch, without their last tokens. Axes: G prompts, P padded length, B rows."""

    ids: Tensor  # (G, P) int64, right-padded
    length_G: Tensor
    prompt_of_B: Tensor  # index into G of each row
    length_B: Tensor  # real tokens of what follows in each row

    @property
    def tokens(self) -> int:
        """Real tokens."""
        return int(self.length_G.sum())


def split_with_shared_prompts(
    inputs: Sequence[IntArray], prompt_lengths: Sequence[int], budget: int
) -> tuple[list[list[int]], int]:
    """Split rows, each its prompt and what follows, into chunks that need no more memory than ``budget`` padded tokens.

    Equal prompts are neighbours, long ones first; a chunk holds (prompts x longest) + (rows x longest rest) tokens. A
    row that exceeds a limit gets its own chunk. Returns the chunks, and the tokens that are computed, without padding.
    """
    names = [ids[: length - 1].tobytes() for ids, length in zip(inputs, prompt_lengths, strict=True)]
    first: dict[bytes, int] = {}
    for row, name in enumerate(names):
        first.setdefault(name, row)
    rests = [len(ids) - length + 1 for ids, length in zip(inputs, prompt_lengths, strict=True)]
    order = sorted(range(len(inputs)), key=lambda row: (-prompt_lengths[row], first[names[row]], -rests[row], row))
    chunks: list[list[int]] = []
    computed, prompts, longest, rest = sum(rests), set[bytes](), 0, 0
    for row in order:
        wider = max(rest, rests[row])
        rows = len(chunks[-1]) + 1 if chunks else 1
        tokens = (len(prompts) + (names[row] not in prompts)) * longest + rows * wider
        keys = rows * (longest + wider)
        if chunks and tokens <= _TOKENS * budget and keys <= _KEYS * budget and keys * wider <= _MASK * budget:
            chunks[-1].append(row)
            rest = wider
        else:
            chunks.append([row])
            prompts, longest, rest = set(), max(1, prompt_lengths[row] - 1), rests[row]
        if names[row] not in prompts:
            prompts.add(names[row])
            computed += prompt_lengths[row] - 1
    return chunks, computed


def shared_prompts(
    inputs: Sequence[IntArray], prompt_lengths: Sequence[int], device: torch.device | str
) -> SharedPrompts:
    """The different prompts of a chunk's rows, in order of first appearance."""
    numbers: dict[bytes, int] = {}
    prompts: list[IntArray] = []
    of_row = []
    for ids, length in zip(inputs, prompt_lengths, strict=True):
        prompt = ids[: length - 1]
        number = numbers.setdefault(prompt.tobytes(), len(prompts))
        if number == len(prompts):
            prompts.append(prompt)
        of_row.append(number)
    padded = np.zeros((len(prompts), max(1, *map(len, prompts))), np.int64)
    for number, prompt in enumerate(prompts):
        padded[number, : len(prompt)] = prompt
    lengths = np.array([len(prompt) for prompt in prompts])
    rests = np.array([len(ids) - max(0, length - 1) for ids, length in zip(inputs, prompt_lengths, strict=True)])
    arrays = (padded, lengths, np.array(of_row), rests)
    return SharedPrompts(*(torch.from_numpy(each).to(device) for each in arrays))
