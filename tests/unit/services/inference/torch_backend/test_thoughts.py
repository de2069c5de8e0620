"""Thoughts before sheets: free tokens within their budget, then orders under the mask, all with their own logprobs."""

from __future__ import annotations

import copy
import random
from dataclasses import replace

import numpy as np
import pytest

from services.inference.engine import EngineError, Generation, GenerationRequest
from services.inference.sequence import teacher_forced_generation
from services.inference.thoughts import ThoughtFormat
from services.inference.token_masks import SheetConstraint, SlotConstraint
from services.inference.torch_backend.engine import TorchEngine
from tests.unit.services.inference.torch_backend.cases import (
    CONTEXT,
    END,
    NEWLINE,
    check_against_plain_forward,
    check_follows_sheet,
    order_sheet,
    peaked_model,
    requests,
    write,
)

END_THINK = 45
THOUGHT = ThoughtFormat(opening=(44, NEWLINE), end_id=END_THINK, after_end=(NEWLINE,), closing=(46, 47), max_tokens=9)


def sheet_part(generation: Generation) -> Generation:
    """The generation without its thought."""
    start = generation.answer_start
    thoughts = int(generation.sampled_mask[:start].sum())
    assert not generation.admissible_offsets[: thoughts + 1].any()
    return replace(
        generation,
        completion_ids=generation.completion_ids[start:],
        sampled_mask=generation.sampled_mask[start:],
        admissible_offsets=generation.admissible_offsets[thoughts:],
    )


def check_thought(request: GenerationRequest, generation: Generation) -> str:
    """Check the shape of the thought; returns how it ended."""
    thought = request.thought
    assert thought is not None
    written = generation.completion_ids[: generation.answer_start].tolist()
    mask = generation.sampled_mask[: generation.answer_start].tolist()
    opening = len(thought.opening)
    assert tuple(written[:opening]) == thought.opening
    assert not any(mask[:opening])
    count = sum(mask)
    assert all(mask[opening : opening + count])
    own, after = written[opening : opening + count], tuple(written[opening + count :])
    assert 1 <= count <= thought.max_tokens
    assert not {END, thought.end_id} & set(own[:-1])
    if own[-1] == thought.end_id:
        assert after == thought.after_end
        return "end of the thought"
    assert after == thought.closing
    return "end of a text" if own[-1] == END else "budget"


@pytest.mark.parametrize("temperature", [0.0, 1.0, 4.0])
def test_a_thought_may_be_anything_and_the_sheet_after_it_is_legal(temperature: float) -> None:
    model = peaked_model()
    reference = copy.deepcopy(model)
    wanted = [replace(request, thought=THOUGHT) for request in requests(60, temperature=temperature)]
    wanted += [
        replace(request, temperature=temperature) for request in requests(5, 1)
    ]  # without a thought, beside them
    ends = set()
    for request, generation in zip(wanted, write(TorchEngine(model, max_concurrent_decisions=16), wanted), strict=True):
        check_against_plain_forward(reference, request, generation)
        assert request.constraint is not None
        if request.thought is None or not generation.answer_start:
            assert not any(len(slot.alternatives) > 1 for slot in request.constraint.slots) or not request.thought
            check_follows_sheet(request, generation)
            continue
        ends.add(check_thought(request, generation))
        check_follows_sheet(request, sheet_part(generation))
        assert generation.finished
    if temperature == 4.0:
        assert ends == {"end of the thought", "end of a text", "budget"}


def test_free_text_after_a_thought_has_no_admissible_ids_at_all() -> None:
    model = peaked_model()
    wanted = [
        replace(request, thought=THOUGHT, constraint=None, max_completion_length=7, temperature=2.0)
        for request in requests(12)
    ]
    for request, generation in zip(wanted, write(TorchEngine(copy.deepcopy(model)), wanted), strict=True):
        check_against_plain_forward(model, request, generation)
        check_thought(request, generation)
        assert not len(generation.admissible_offsets)
        answer = generation.completion_ids[generation.answer_start :]
        assert generation.finished == (answer[-1] == END)
        assert len(answer) == 7 or generation.finished


def test_a_sheet_without_a_choice_needs_no_thought() -> None:
    sheet = SheetConstraint((SlotConstraint(((20, NEWLINE),), (None,)),), END)
    (generation,) = write(TorchEngine(peaked_model()), [GenerationRequest((5,), sheet, seed=0, thought=THOUGHT)])
    assert generation.completion_ids.tolist() == [20, NEWLINE, END]
    assert not generation.sampled_mask.any()


def test_a_thought_that_does_not_fit_is_refused_with_its_size() -> None:
    wide = replace(THOUGHT, max_tokens=CONTEXT)
    sheet = order_sheet(random.Random(3), 4)
    with pytest.raises(EngineError, match=rf"thought up to {CONTEXT + 4}"):
        write(TorchEngine(peaked_model()), [GenerationRequest((5,), sheet, seed=0, thought=wide)])
    with pytest.raises(EngineError, match="leaves no room"):
        write(TorchEngine(peaked_model()), [GenerationRequest((5,), None, seed=0, thought=wide)])


def test_a_teacher_leaves_the_thought_empty() -> None:
    sheet = SheetConstraint((SlotConstraint(((20, NEWLINE), (21, NEWLINE)), (None, None)),), END)
    generation = teacher_forced_generation(sheet, [21, NEWLINE, END], THOUGHT)
    assert generation.completion_ids.tolist() == [44, NEWLINE, 46, 47, 21, NEWLINE, END]
    assert np.flatnonzero(generation.sampled_mask).tolist() == [4]
    assert (generation.answer_start, generation.admissible_ids.tolist()) == (4, [20, 21])
    forced = SheetConstraint((SlotConstraint(((20, NEWLINE),), (None,)),), END)
    assert teacher_forced_generation(forced, [20, NEWLINE, END], THOUGHT).answer_start == 0


def test_all_ends_that_a_model_names_end_a_thought() -> None:
    model = peaked_model()
    model.config.eos_token_id, model.generation_config.eos_token_id = 0, [0, 7, 8]
    wanted = [replace(request, thought=replace(THOUGHT, max_tokens=40), temperature=8.0) for request in requests(60)]
    last = set()
    for generation in write(TorchEngine(model), wanted):
        if generation.answer_start:
            thought = generation.completion_ids[: generation.answer_start][
                generation.sampled_mask[: generation.answer_start]
            ]
            assert not {0, 7, 8, END, END_THINK} & set(thought[:-1].tolist())
            last.add(int(thought[-1]))
    assert {0, 7, 8, END, END_THINK} <= last
