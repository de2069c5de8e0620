"""Turns to micro-batches with a token budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from grpo_core.batching.shared_prompts import WORTH, SharedPrompts, shared_prompts, split_with_shared_prompts
from grpo_core.settings import Normalizer
from grpo_core.types import Episode, IntArray, Turn


@dataclass(frozen=True, slots=True, eq=False)
class TrainingTurn:
    """One turn's arrays for the forward pass.

    Axes: L input tokens, S trained tokens, A admissible ids of all tokens that were sampled under a mask.
    """

    turn: int  # index into the batch's turns, in episode order
    episode: int  # index into the batch's episodes
    input_ids: IntArray  # (L,) prompt and completion up to, not including, the last trained token
    prompt_length: int  # tokens of the prompt
    position_S: NDArray[np.int64]  # index into input_ids whose hidden state predicts the trained token
    target_S: NDArray[np.int64]
    behaviour_S: NDArray[np.float32]
    masked_S: NDArray[np.bool_]  # False where the whole vocabulary was admissible
    admissible_id_A: NDArray[np.int64]
    admissible_row_A: NDArray[np.int64]  # which masked token, counted from 0, each admissible id belongs to; ascending
    chosen: NDArray[np.int64]  # (masked_S.sum(),) index into admissible_id_A of each masked token
    temperature: float
    staleness: int  # updates between the weights that sampled this turn and the learner

    @property
    def free(self) -> bool:
        """Whether the whole vocabulary was admissible for some trained token."""
        return not bool(self.masked_S.all())


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """Tensors of one forward pass.

    Axes: B rows, L padded length, N trained tokens (row by row): M of them sampled under a mask, with A admissible ids
    in all, U distinct ones, and F from the whole vocabulary.
    """

    input_ids: Tensor  # (B, L) int64, right-padded; with shared prompts from each prompt's last token on
    prompts: SharedPrompts | None  # what goes before; None: the rows are whole
    row_N: Tensor  # index into B, ascending
    hidden_index_N: Tensor  # index into the (B * L) hidden states
    target_N: Tensor  # the sampled ids
    behaviour_N: Tensor  # float32
    advantage_N: Tensor  # float32
    weight_N: Tensor  # float32; of the token in the loss of the whole minibatch
    temperature_N: Tensor  # float32
    masked_M: Tensor  # index into N, ascending
    free_F: Tensor  # index into N, ascending
    union_id_U: Tensor  # ascending
    admissible_column_A: Tensor  # index into U
    admissible_row_A: Tensor  # index into M, ascending
    chosen_M: Tensor  # index into A of the sampled id
    tokens: int  # real input tokens of all rows; a shared prompt counts in each
    turns: tuple[int, ...]  # the rows' turns, in order
    fresh: bool  # every turn was sampled by exactly these weights, before any step of this update
    computed: int  # real tokens that go through the model; a shared prompt counts once

    @property
    def padded(self) -> int:
        """Tokens that go through the model, padding included; of shared prompts only attention sees padding."""
        return self.input_ids.numel() + (0 if self.prompts is None else self.prompts.ids.numel())


def training_turns(episodes: Sequence[Episode], learner_version: int) -> tuple[TrainingTurn, ...]:
    """Convert all turns that have trained tokens, in episode order; other turns need no forward pass.

    Raises:
        ValueError: a turn's lengths differ, a sampled token is not admissible (its log-probability would be minus
            infinity), or the temperature is not positive.
    """
    out: list[TrainingTurn] = []
    index = 0
    for owner, episode in enumerate(episodes):
        for turn in episode.turns:
            if turn.trained_mask.any():
                try:
                    out.append(training_turn(turn, index, owner, learner_version))
                except ValueError as error:
                    raise ValueError(f"episode {episode.episode_id}, phase {turn.phase}: {error}") from None
            index += 1
    return tuple(out)


def training_turn(turn: Turn, index: int, owner: int, learner_version: int) -> TrainingTurn:
    """Convert one turn with trained tokens, number ``index`` of its batch, of episode number ``owner``.

    Raises:
        ValueError: see ``training_turns``.
    """
    length = len(turn.completion_ids)
    if len(turn.logprobs) != length or len(turn.trained_mask) != length:
        raise ValueError(f"completion_ids, logprobs and trained_mask differ in length ({length}, "
                         f"{len(turn.logprobs)}, {len(turn.trained_mask)})")  # fmt: skip
    if not turn.temperature > 0:
        raise ValueError(f"temperature {turn.temperature} is not positive")
    if len(turn.prompt_ids) == 0:
        raise ValueError("the prompt is empty; the first token has nothing to be predicted from")
    trained = np.flatnonzero(turn.trained_mask)
    targets = turn.completion_ids[trained].astype(np.int64)
    ids = turn.admissible_ids.astype(np.int64)
    counts = np.zeros(len(trained), np.int64)  # admissible ids of each token; 0: the whole vocabulary
    if len(turn.admissible_offsets):
        offsets = turn.admissible_offsets.astype(np.int64)
        if len(offsets) != len(trained) + 1 or offsets[0] != 0 or offsets[-1] != len(ids):
            raise ValueError(f"{len(offsets)} admissible offsets over {len(ids)} ids for {len(trained)} sampled tokens")
        counts = np.diff(offsets)
    masked = counts > 0
    rows = np.repeat(np.arange(masked.sum()), counts[masked])
    chosen = np.flatnonzero(ids == targets[masked][rows])
    if not np.array_equal(rows[chosen], np.arange(masked.sum())):
        raise ValueError("a sampled token is not among its admissible ids, or is there twice")
    return TrainingTurn(
        turn=index,
        episode=owner,
        input_ids=np.concatenate([turn.prompt_ids, turn.completion_ids[: trained[-1]]]).astype(np.int32),
        prompt_length=len(turn.prompt_ids),
        position_S=len(turn.prompt_ids) - 1 + trained,
        target_S=targets,
        behaviour_S=turn.logprobs[trained],
        masked_S=masked,
        admissible_id_A=ids,
        admissible_row_A=rows,
        chosen=chosen,
        temperature=turn.temperature,
        staleness=learner_version - turn.policy_version,
    )


def split_minibatches(
    turns: Sequence[TrainingTurn], normalizer: Normalizer, count: int, generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Draw random minibatches (indices of turns, ascending), one for each optimizer step; each turn is in one.

    With the normaliser ``episode`` an episode stays in one minibatch. There are fewer than ``count`` minibatches if
    there are fewer turns (or episodes).
    """
    if not turns:
        return []
    unit = np.array([turn.episode if normalizer == "episode" else turn.turn for turn in turns])
    names = generator.permutation(np.unique(unit))
    return [np.flatnonzero(np.isin(unit, part)) for part in np.array_split(names, min(count, len(names)))]


def split_by_budget(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Split indices into chunks of at most ``budget`` padded tokens (rows x longest), longest first.

    A sequence longer than the budget gets its own chunk.
    """
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    chunks: list[list[int]] = []
    for index in order:
        if chunks and (len(chunks[-1]) + 1) * lengths[chunks[-1][0]] <= budget:
            chunks[-1].append(index)
        else:
            chunks.append([index])
    return chunks


def micro_batches(
    turns: Sequence[TrainingTurn],
    advantages: NDArray[np.float32],
    weights: NDArray[np.float64],
    budget: int,
    device: torch.device | str = "cpu",
    *,
    fresh: bool = False,
    share_prompts: bool = False,
) -> list[MicroBatch]:
    """Make micro-batches of turns, each with one advantage and one token weight, both of shape (len(turns),).

    Rows are sorted by length to save padding; turns with tokens from the whole vocabulary are in micro-batches of their
    own. With ``share_prompts``, equal prompts are computed once where that leaves at most ``WORTH`` of the tokens.
    """
    out: list[MicroBatch] = []
    for free in (False, True):
        chosen = [index for index, turn in enumerate(turns) if turn.free == free]
        chunks, shared = _chunks([turns[index] for index in chosen], budget, share_prompts=share_prompts)
        for chunk in chunks:
            picked = [chosen[index] for index in chunk]
            out.append(
                _collate([turns[i] for i in picked], advantages[picked], weights[picked], device, fresh, shared=shared)
            )
    return out


def _chunks(turns: Sequence[TrainingTurn], budget: int, *, share_prompts: bool) -> tuple[list[list[int]], bool]:
    """Return the rows of each micro-batch, and whether they share prompts."""
    lengths = [len(turn.input_ids) for turn in turns]
    if share_prompts and turns:
        inputs, prompt_lengths = [turn.input_ids for turn in turns], [turn.prompt_length for turn in turns]
        chunks, computed = split_with_shared_prompts(inputs, prompt_lengths, budget)
        if computed <= WORTH * sum(lengths):
            return chunks, True
    return split_by_budget(lengths, budget), False


def _collate(
    turns: Sequence[TrainingTurn],
    advantages: NDArray[np.float32],
    weights: NDArray[np.float64],
    device: torch.device | str,
    fresh: bool,
    *,
    shared: bool,
) -> MicroBatch:
    prompts, before = None, [0] * len(turns)  # tokens of each row that are computed elsewhere
    if shared:
        prompts = shared_prompts([turn.input_ids for turn in turns], [turn.prompt_length for turn in turns], device)
        before = [turn.prompt_length - 1 for turn in turns]
    longest = max(len(turn.input_ids) - left for turn, left in zip(turns, before, strict=True))
    input_ids = np.zeros((len(turns), longest), np.int64)
    for row, (turn, left) in enumerate(zip(turns, before, strict=True)):
        input_ids[row, : len(turn.input_ids) - left] = turn.input_ids[left:]
    tokens = sum(len(turn.input_ids) for turn in turns)
    trained = np.array([len(turn.position_S) for turn in turns])
    masked = np.concatenate([turn.masked_S for turn in turns])
    masks = np.array([int(turn.masked_S.sum()) for turn in turns])
    first_M = np.cumsum(masks) - masks
    admissible = np.array([len(turn.admissible_id_A) for turn in turns])
    first_A = np.cumsum(admissible) - admissible
    union, column = np.unique(np.concatenate([turn.admissible_id_A for turn in turns]), return_inverse=True)

    def on_device(array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    def per_token(values: NDArray[np.generic]) -> Tensor:
        return on_device(np.repeat(values, trained).astype(np.float32))

    return MicroBatch(
        input_ids=on_device(input_ids),
        prompts=prompts,
        row_N=on_device(np.repeat(np.arange(len(turns)), trained)),
        hidden_index_N=on_device(
            np.concatenate([t.position_S - before[row] + row * longest for row, t in enumerate(turns)])
        ),
        target_N=on_device(np.concatenate([turn.target_S for turn in turns])),
        behaviour_N=on_device(np.concatenate([turn.behaviour_S for turn in turns]).astype(np.float32)),
        advantage_N=per_token(advantages),
        weight_N=per_token(weights),
        temperature_N=per_token(np.array([turn.temperature for turn in turns])),
        masked_M=on_device(np.flatnonzero(masked)),
        free_F=on_device(np.flatnonzero(~masked)),
        union_id_U=on_device(union),
        admissible_column_A=on_device(column),
        admissible_row_A=on_device(
            np.concatenate([t.admissible_row_A + m for t, m in zip(turns, first_M, strict=True)])
        ),
        chosen_M=on_device(np.concatenate([t.chosen + a for t, a in zip(turns, first_A, strict=True)])),
        tokens=tokens,
        computed=tokens - sum(before) + (0 if prompts is None else prompts.tokens),
        turns=tuple(turn.turn for turn in turns),
        fresh=fresh and all(turn.staleness == 0 for turn in turns),
    )
