"""Answers one question by all agents: each alone, then one answer of all of them by a vote, consensus or average."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import torch
from torch import Tensor

from cluster.solving.agents import Agents, Completion, perplexity
from cluster.solving.questions import Asked
from grpo_core.ensembles.representations import effective_rank, mean_pairwise_cosine, most_central
from grpo_core.seeds import derive_seed
from services.environments.word_problems.scores import majority

Mode = Literal["one", "vote", "consensus", "average"]


@dataclass(frozen=True, slots=True)
class Asking:
    """How a question is put."""

    mode: Mode = "vote"
    samples: int = 8  # of each agent, besides its answer
    temperature: float = 1.0  # of the samples
    answer_temperature: float = 0.0  # of each agent's own answer; 0 is greedy
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Diversity:
    """How much completions differ, by the states that represent them."""

    mean_cosine: float  # over all pairs: 1 for states of one direction
    effective_rank: float  # from 1 to the number of completions


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """What one agent wrote."""

    variant: str
    completion: Completion  # its own answer: greedy, unless an answer temperature is asked for
    perplexity: float
    reference_perplexity: float | None  # of the true answer as a completion; None: unknown, or it cannot be written
    samples: tuple[Completion, ...]


@dataclass(frozen=True, slots=True)
class Solved:
    """A question with its answers."""

    asked: Asked
    mode: Mode
    chosen: Completion  # the answer of all agents
    agents: tuple[AgentAnswer, ...]
    # At the same temperature: of a sample of each agent, and of as many samples of the first one. None: there is one
    # agent, or there are fewer samples of it than agents.
    diversity: Diversity | None
    samples_diversity: Diversity | None


async def solve(agents: Agents, asked: Asked, asking: Asking) -> Solved:
    """Answer a question. Under mode ``one`` only the first agent does.

    A sample's seed depends on the seed, the question, the variant and its number, so no question changes another's.

    Raises RunError for a question that the policy cannot read, EngineError if a prompt is too long.
    """
    question = asked.question
    agents.check(question)
    variants = agents.variants[:1] if asking.mode == "one" else agents.variants

    async def written(variant: str) -> tuple[Completion, tuple[Completion, ...]]:
        seeds = [derive_seed(asking.seed, "solve", question.text, variant, number) for number in range(asking.samples)]
        own = derive_seed(asking.seed, "solve", question.text, variant, "answer")
        (answer,), samples = await asyncio.gather(
            agents.write(question, variant, [own], asking.answer_temperature),
            agents.write(question, variant, seeds, asking.temperature),
        )
        return answer, tuple(samples)

    found: list[AgentAnswer] = []
    states: list[Tensor] = []
    for variant, (answer, samples) in zip(variants, await asyncio.gather(*map(written, variants)), strict=True):
        reading = agents.read(question, variant, answer.ids)
        states.append(reading.state)
        wanted = asked.reference
        reference = None if wanted is None else agents.perplexity_of(question, variant, wanted)
        found.append(AgentAnswer(variant, answer, perplexity(reading.logprobs), reference, samples))
    stacked = torch.stack(states)
    if asking.mode == "average":
        chosen = agents.write_together(question)
    elif asking.mode == "consensus":
        chosen = found[most_central(stacked)].completion
    else:
        chosen = found[winner([each.completion.answer for each in found])].completion
    diversity = samples_diversity = None
    if 1 < len(found) <= asking.samples:

        def compared(samples: Sequence[tuple[str, Completion]]) -> Diversity:
            states = [agents.read(question, variant, each.ids).state for variant, each in samples]
            return diversity_of(torch.stack(states))

        diversity = compared([(agent.variant, agent.samples[0]) for agent in found])
        samples_diversity = compared([(variants[0], each) for each in found[0].samples[: len(found)]])
    return Solved(asked, asking.mode, chosen, tuple(found), diversity, samples_diversity)


async def solve_all(
    agents: Agents, questions: Sequence[Asked], asking: Asking, done: Callable[[], None] = lambda: None
) -> list[Solved]:
    """Answer questions, several at the same time, and close the agents; ``done`` is called after each question.

    Raises as ``solve``.
    """
    texts = (1 if asking.mode == "one" else len(agents.variants)) * (1 + asking.samples)
    together = asyncio.Semaphore(max(1, agents.rows // texts))

    async def solve_next(asked: Asked) -> Solved:
        async with together:
            solved = await solve(agents, asked, asking)
        done()
        return solved

    try:
        await agents.load_specialists()
        return await asyncio.gather(*map(solve_next, questions))
    finally:
        await agents.close()


def winner(answers: Sequence[Fraction | None]) -> int:
    """Return the first of those who gave the most frequent answer; of answers in a tie, the one given first counts.

    Agents without an answer do not vote; where none has one, the first agent wins.
    """
    most = majority(answers)
    return next((place for place, answer in enumerate(answers) if answer is not None and answer in most), 0)


def diversity_of(states: Tensor) -> Diversity:
    """The diversity of at least two completions by their states."""
    return Diversity(mean_pairwise_cosine(states), effective_rank(states))
