"""A sheet that somebody else wrote, as if it had been sampled under its mask."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.inference.constraints import ConstraintError, SheetConstraint, SheetState
from services.inference.engine import Generation


def demonstrate(constraint: SheetConstraint, completion_ids: Sequence[int]) -> Generation:
    """What an engine would have answered, had it written these tokens; log-probabilities and version are 0.

    Args:
        constraint: the mask.
        completion_ids: a whole sheet under it, end id included.

    Raises:
        ConstraintError: the mask does not let this sheet be written.
    """
    state = SheetState(constraint)
    written = state.forced()
    sampled_at: list[int] = []
    admissible: list[NDArray[np.int32]] = []
    while not state.finished:
        at = len(written)
        if at >= len(completion_ids):
            raise ConstraintError(f"the sheet ends after {at} tokens, before the mask does")
        sampled_at.append(at)
        admissible.append(state.admissible())
        state.advance(completion_ids[at])
        written += [completion_ids[at], *state.forced()]
    if written != list(completion_ids):
        raise ConstraintError(f"the sheet leaves its mask: {list(completion_ids)} instead of {written}")
    sampled_mask = np.zeros(len(written), np.bool_)
    sampled_mask[sampled_at] = True
    offsets = np.zeros(len(sampled_at) + 1, np.int32)
    np.cumsum([len(ids) for ids in admissible], out=offsets[1:])
    return Generation(
        completion_ids=np.array(written, np.int32),
        logprobs=np.zeros(len(written), np.float32),
        sampled_mask=sampled_mask,
        admissible_ids=np.concatenate(admissible) if admissible else np.empty(0, np.int32),
        admissible_offsets=offsets,
        policy_version=0,
        finished=True,
    )
