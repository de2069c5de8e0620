"""A logits processor of vLLM, imported by its workers: it masks each row by its sheet after the sampled tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from vllm.config import VllmConfig
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from services.inference.token_masks import ConstraintError, SheetState, decode_sheet
from services.inference.vllm_backend.core import SHEET


class RowConstraint:
    """The sheet of one row, and its state after the row's sampled tokens."""

    def __init__(self, sheet: bytes, written: Sequence[int]) -> None:
        constraint = decode_sheet(sheet)
        self._end = np.array([constraint.end_id], np.int32)
        self._state = SheetState(constraint)
        self._state.forced()  # these tokens are at the end of the prompt
        self._written = written  # grows as vLLM samples
        self._seen = 0
        self._forced: deque[int] = deque()
        self._failed = False

    def admissible(self) -> NDArray[np.int32]:
        """Return the ids that may come next: the end id without a choice, as the engine appends forced tokens."""
        while self._seen < len(self._written):
            self._step(self._written[self._seen])
            self._seen += 1
        if self._failed or not self._state.has_choice:
            return self._end
        if self._forced:
            return np.array([self._forced[0]], np.int32)
        return self._state.admissible()

    def _step(self, token: int) -> None:
        if self._forced:
            self._forced.popleft()
            return
        if self._failed or not self._state.has_choice:
            return
        try:
            self._state.advance(token)
        except ConstraintError:
            self._failed = True  # the engine finds the same error and raises it
            return
        self._forced.extend(self._state.forced())


class SheetMask(LogitsProcessor):  # type: ignore[misc]  # vLLM may be absent where types are checked
    """Sets the logits that a row's sheet does not admit to minus infinity."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:  # noqa: ARG002
        self._device = device
        self._constraints: dict[int, RowConstraint] = {}  # by row of the batch

    def is_argmax_invariant(self) -> bool:
        """Return False: greedy rows are masked too."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Apply the rows that left, joined and moved."""
        if batch_update is None:
            return
        constraints = self._constraints
        for row in batch_update.removed:
            constraints.pop(row, None)
        for row, params, _, written in batch_update.added:
            sheet = (params.extra_args or {}).get(SHEET)
            if sheet is None:
                constraints.pop(row, None)
            else:
                constraints[row] = RowConstraint(sheet, written)
        for source, target, direction in batch_update.moved:
            from_source, from_target = constraints.pop(source, None), constraints.pop(target, None)
            if from_source is not None:
                constraints[target] = from_source
            if from_target is not None and direction == MoveDirectionality.SWAP:
                constraints[source] = from_target

    def apply(self, logits: Tensor) -> Tensor:
        """Mask logits (B, V) in place and return them."""
        if not self._constraints:
            return logits
        admissible = [constraint.admissible() for constraint in self._constraints.values()]
        rows = np.fromiter(self._constraints, np.int64, len(self._constraints))
        row_of = np.repeat(rows, [len(ids) for ids in admissible])
        index = torch.from_numpy(np.stack([row_of, np.concatenate(admissible).astype(np.int64)])).to(self._device)
        kept = logits[index[0], index[1]]
        logits.index_fill_(0, torch.from_numpy(rows).to(self._device), -torch.inf)
        logits[index[0], index[1]] = kept
        return logits
