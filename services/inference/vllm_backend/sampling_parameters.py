"""vLLM's sampling parameters of each part of a decision: a thought, and then a sheet or free text."""

from __future__ import annotations

from typing import Any

from services.inference.sequence import FreeState, RunningSequence, ThoughtState
from services.inference.token_masks import encode_sheet
from services.inference.vllm_backend.core import SHEET

_SHEET_SEED = 0x5EED_0F0E_DE25  # tells the random numbers of a sheet from those of the thought before it


def next_part_parameters(sequence: RunningSequence) -> Any:
    """Return the ``SamplingParams`` of what the sequence writes next: its thought, or what follows it."""
    return _thought_parameters(sequence) if sequence.thinking else _decision_parameters(sequence)


def _thought_parameters(sequence: RunningSequence) -> Any:
    thought, state = sequence.request.thought, sequence.state
    assert thought is not None
    assert isinstance(state, ThoughtState)
    ends = sorted(state.end_ids | ({thought.end_id} if thought.end_id is not None else set()))
    return _sampling(sequence.request.temperature, sequence.request.seed, ends, thought.max_tokens)


def _decision_parameters(sequence: RunningSequence) -> Any:
    """The parameters of a sheet or free text, with or without a thought before it."""
    request, constraint = sequence.request, sequence.request.constraint
    # After a thought the random numbers must not be those that wrote it.
    seed = request.seed if request.thought is None else request.seed ^ _SHEET_SEED
    if constraint is not None:
        sheet = {SHEET: encode_sheet(constraint)}
        return _sampling(request.temperature, seed, [constraint.end_id], constraint.longest, sheet)
    state = sequence.state.rest if isinstance(sequence.state, ThoughtState) else sequence.state
    assert isinstance(state, FreeState)
    ends = state.limits.end_ids
    # A stop text of several tokens is found afterwards: vLLM goes on to an end id or the limit, which costs time.
    if request.stop is not None and request.stop.token is not None:
        ends = ends | {request.stop.token}
    return _sampling(request.temperature, seed, sorted(ends), state.left)


def _sampling(temperature: float, seed: int, ends: list[int], limit: int, extra: dict[str, bytes] | None = None) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=temperature,
        seed=seed & 0x7FFF_FFFF_FFFF_FFFF,
        max_tokens=limit,
        stop_token_ids=ends,
        logprobs=0,  # that of the sampled token alone
        flat_logprobs=True,
        detokenize=False,
        extra_args=extra,
        output_kind=RequestOutputKind.FINAL_ONLY,
        skip_clone=True,
    )
