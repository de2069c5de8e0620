"""Legal-order masks inside vLLM: a logits processor that walks every row's sheet along with its sampled tokens.

vLLM imports this module in whichever process its workers run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from vllm import SamplingParams
from vllm.config import VllmConfig
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from services.inference.constraints import ConstraintError, SheetState, decode_sheet

SHEET = "sheet"  # key of the encoded constraint in a request's extra_args


class SheetWalk:
    """One row: its sheet, and how far the tokens that were written have taken it."""

    def __init__(self, sheet: bytes, written: Sequence[int]) -> None:
        constraint = decode_sheet(sheet)
        self._end = np.array([constraint.end_id], np.int32)
        self._state = SheetState(constraint)
        self._state.forced()  # they stand at the end of the prompt
        self._written = written  # grows as vLLM samples
        self._seen = 0
        self._forced: deque[int] = deque()
        self._failed = False

    def admissible(self) -> NDArray[np.int32]:
        """The ids that may come next.

        Where nothing is left to choose the end id follows at once: whoever asked fills in what is forced.
        """
        while self._seen < len(self._written):
            self._step(self._written[self._seen])
            self._seen += 1
        if self._failed or not self._state.chooses:
            return self._end
        if self._forced:
            return np.array([self._forced[0]], np.int32)
        return self._state.admissible()

    def _step(self, token: int) -> None:
        if self._forced:
            self._forced.popleft()
            return
        if self._failed or not self._state.chooses:
            return
        try:
            self._state.advance(token)
        except ConstraintError:
            self._failed = True  # whoever asked finds the same, and says so
            return
        self._forced.extend(self._state.forced())


class SheetMask(LogitsProcessor):  # type: ignore[misc]  # vLLM may be absent where types are checked
    """Sets every logit that a row's sheet does not admit to minus infinity."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:  # noqa: ARG002
        self._device = device
        self._walks: dict[int, SheetWalk] = {}  # by row of the batch

    def is_argmax_invariant(self) -> bool:
        """Greedy rows are masked too."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow the rows as they leave, join and move."""
        if batch_update is None:
            return
        walks = self._walks
        for row in batch_update.removed:
            walks.pop(row, None)
        for row, params, _, written in batch_update.added:
            sheet = _sheet(params)
            if sheet is None:
                walks.pop(row, None)
            else:
                walks[row] = SheetWalk(sheet, written)
        for source, target, way in batch_update.moved:
            moving, staying = walks.pop(source, None), walks.pop(target, None)
            if moving is not None:
                walks[target] = moving
            if staying is not None and way == MoveDirectionality.SWAP:
                walks[source] = staying

    def apply(self, logits: Tensor) -> Tensor:
        """(B, V) in, the same tensor out."""
        if not self._walks:
            return logits
        admissible = [walk.admissible() for walk in self._walks.values()]
        rows = np.fromiter(self._walks, np.int64, len(self._walks))
        row_of = np.repeat(rows, [len(ids) for ids in admissible])
        index = torch.from_numpy(np.stack([row_of, np.concatenate(admissible).astype(np.int64)])).to(self._device)
        kept = logits[index[0], index[1]]
        logits.index_fill_(0, torch.from_numpy(rows).to(self._device), -torch.inf)
        logits[index[0], index[1]] = kept
        return logits


def _sheet(params: SamplingParams) -> bytes | None:
    extra: dict[str, Any] = params.extra_args or {}
    return extra.get(SHEET)
