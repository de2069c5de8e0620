"""What agents write and read, against slow references with the same weights."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from cluster.errors import RunError
from cluster.solving.agents import Agents, Completion, perplexity
from cluster.solving.policy_folder import find_policy
from grpo_core.models.pretrained import load_model
from services.environments.word_problems.instructions import prompt_text
from services.environments.word_problems.problem import Question
from services.inference.engine import EngineError
from tests.unit.cluster.solving.policies import QUESTION, VARIANTS, write_run

ASKED = Question(QUESTION)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def agents(folder: Path) -> Agents:
    return Agents(find_policy(folder))


@pytest.fixture(scope="module")
def plain(folder: Path) -> tuple[PreTrainedModel, list[list[int]]]:
    """The model as transformers runs it, and the prompts of the variants."""
    model, tokenizer = load_model(folder)
    return model, [tokenizer.encode(prompt_text(name, [ASKED])) for name in VARIANTS]


def write(agents: Agents, variant: str, seeds: list[int], temperature: float) -> list[Completion]:
    return asyncio.run(agents.write(ASKED, variant, seeds, temperature))


def test_a_state_is_the_mean_over_the_completions_own_tokens(
    agents: Agents, plain: tuple[PreTrainedModel, list[list[int]]]
) -> None:
    model, prompts = plain
    completions = [list(range(10, 10 + length)) for length in (1, 9, 4, 6)]
    rows = [[*prompt, *completion] for prompt, completion in zip(prompts, completions, strict=True)]
    width = max(map(len, rows)) + 3
    padded = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    with torch.inference_mode():
        decoder = model.get_decoder()
        hidden = decoder(input_ids=padded, use_cache=False).last_hidden_state  # padding on the right reaches no token
    for number, variant in enumerate(VARIANTS):
        total = torch.zeros(hidden.shape[2])
        for place in range(len(prompts[number]), len(rows[number])):
            total += hidden[number, place]
        found = agents.read(ASKED, variant, completions[number]).state
        torch.testing.assert_close(found, total / len(completions[number]), rtol=1e-4, atol=1e-5)


def test_logprobs_and_perplexity_equal_a_loop(agents: Agents, plain: tuple[PreTrainedModel, list[list[int]]]) -> None:
    model, prompts = plain
    completion = [7, 12, 40]
    expected = []
    for place, token in enumerate(completion):
        with torch.inference_mode():
            logits = model(torch.tensor([[*prompts[1], *completion[:place]]])).logits[0, -1]
        expected.append(float(logits.double().log_softmax(0)[token]))
    found = agents.read(ASKED, VARIANTS[1], completion)
    assert found.logprobs.tolist() == pytest.approx(expected, abs=1e-4)
    assert perplexity(found.logprobs) == pytest.approx(math.exp(-sum(expected) / 3), rel=1e-4)


def test_the_average_is_greedy_under_the_mean_of_all_prompts(
    agents: Agents, plain: tuple[PreTrainedModel, list[list[int]]]
) -> None:
    model, prompts = plain
    written = agents.write_together(ASKED)
    ids: list[int] = []
    for token in written.ids:
        with torch.inference_mode():
            each = [model(torch.tensor([[*prompt, *ids]])).logits[0, -1].double().softmax(0) for prompt in prompts]
        mean = sum(each[1:], each[0]) / len(each)
        assert float(mean[token]) == pytest.approx(float(mean.max()), rel=1e-4)
        assert written.logprobs is not None
        assert written.logprobs[len(ids)] == pytest.approx(math.log(float(mean.max())), abs=1e-3)
        ids.append(token)
    assert len(ids) == 24 or written.finished


def test_the_average_of_one_agent_is_its_greedy_completion(folder: Path) -> None:
    alone = Agents(find_policy(folder, ["final_answer"]))
    (greedy,) = asyncio.run(alone.write(ASKED, "final_answer", [0], 0.0))
    assert alone.write_together(ASKED).ids == greedy.ids


def test_completions_follow_their_seeds_and_variants(agents: Agents) -> None:
    first = write(agents, VARIANTS[0], [1, 2, 1], 1.0)
    assert first[0].ids == first[2].ids
    assert first[0].ids != first[1].ids
    assert max(len(each.ids) for each in first) <= 24
    assert all(each.finished or len(each.ids) == 24 for each in first)


def test_a_word_that_the_tokenizer_lacks_is_named_alone(agents: Agents) -> None:
    agents.check(ASKED)
    with pytest.raises(RunError) as refused:
        agents.check(Question("How many zebras and quaggas does Sam have?"))
    assert str(refused.value) == "the policy does not know the word 'zebras'"
    with pytest.raises(RunError, match="<eos>"):
        agents.check(Question("How many <eos> pens?"))
    with pytest.raises(RunError, match="does not know the word"):
        agents.check(Question("How many\x1b[31m pens?"))


def test_the_perplexity_of_a_text_is_unknown_where_it_cannot_be_written(agents: Agents) -> None:
    found = agents.perplexity_of(ASKED, VARIANTS[0], "<response>24</response>")
    assert found is not None
    assert found > 1
    assert agents.perplexity_of(ASKED, VARIANTS[0], "quaggas 24") is None
    assert agents.perplexity_of(ASKED, VARIANTS[0], "1 " * 300) is None, "it does not fit the context"


def test_a_prompt_that_is_too_long_is_one_line(agents: Agents) -> None:
    long = Question("pens " * 400)
    with pytest.raises(EngineError, match="no room"):
        asyncio.run(agents.write(long, VARIANTS[0], [0], 0.0))
    with pytest.raises(EngineError, match="no room"):
        agents.write_together(long)


def test_each_specialist_writes_and_reads_under_its_own_adapter(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "run", "policy.use_peft=true", "policy.specialists=true", "policy.lora_r=4", specialists=True
    )
    agents = Agents(find_policy(folder))

    async def greedy() -> list[Completion]:
        await agents.load_specialists()
        found = [(await agents.write(ASKED, name, [0], 0.0))[0] for name in VARIANTS]
        await agents.close()
        return found

    completions = asyncio.run(greedy())
    states = [agents.read(ASKED, name, [5, 6, 7]).state for name in VARIANTS]
    for name, completion in zip(VARIANTS, completions, strict=True):
        # The likeliest token by the forward pass under the adapter is what the engine wrote under it.
        reading = agents.read(ASKED, name, completion.ids)
        alone = Agents(find_policy(folder, [name])).write_together(ASKED)
        assert alone.ids == completion.ids
        assert alone.logprobs == pytest.approx(reading.logprobs.tolist(), abs=1e-3)
    assert len({completion.ids for completion in completions}) > 1
    assert all(not torch.allclose(states[0], other) for other in states[1:])
    with pytest.raises(RunError, match="none for be_concise"):
        Agents(find_policy(folder, ["be_concise"]))
