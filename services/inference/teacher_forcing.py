"""A given order sheet as a generation under its mask, as if an engine had sampled it."""

from __future__ import annotations

from collections.abc import Sequence

from services.inference.constraints import ConstraintError, SheetConstraint, SheetState
from services.inference.engine import Generation, GenerationRequest
from services.inference.sequence import RunningSequence


def teacher_forced_generation(constraint: SheetConstraint, completion_ids: Sequence[int]) -> Generation:
    """What an engine would return had it sampled these tokens; log-probabilities and version are 0.

    Args:
        constraint: the mask.
        completion_ids: a whole sheet under it, end id included.

    Raises:
        ConstraintError: the mask does not admit this sheet.
    """
    sequence = RunningSequence(GenerationRequest((), constraint, seed=0), SheetState(constraint))
    while not sequence.over:
        position = len(sequence.completion)
        if position >= len(completion_ids):
            raise ConstraintError(f"the sheet ends after {position} tokens, before the mask does")
        sequence.accept(completion_ids[position], 0.0, sequence.state.admissible())
    if sequence.failure is not None:
        raise sequence.failure
    if sequence.completion != list(completion_ids):
        raise ConstraintError(f"the sheet leaves its mask: {list(completion_ids)} instead of {sequence.completion}")
    return sequence.generation(policy_version=0)
