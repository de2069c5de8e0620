"""What an answer is worth where the true one is known, and an answered question as a JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from cluster.solving.agents import Completion, perplexity
from cluster.solving.answering import AgentAnswer, Solved, winner
from cluster.solving.questions import Asked
from services.environments.word_problems.problem import number_text
from services.environments.word_problems.rewards import components
from services.environments.word_problems.scores import maj_at_k, pass_at_k


@dataclass(frozen=True, slots=True)
class SampleScores:
    """Samples of one agent against the true answer."""

    pass_at_1: float  # share of right samples
    pass_at_k: float  # whether any is right
    maj_at_k: float  # the chance that their vote is right, ties broken by lot


def is_right(completion: Completion, asked: Asked) -> bool | None:
    """Whether the final answer equals the true one; None: that is unknown."""
    return None if asked.problem is None else bool(components.exact_number(completion.text, asked.problem))


def similarity(completion: Completion, asked: Asked) -> float | None:
    """The similarity to the worked solution, 0 to 1; None: that is unknown."""
    if asked.problem is None or not asked.has_solution:
        return None
    return components.similarity(completion.text, asked.problem)


def sample_scores(samples: Sequence[Completion], asked: Asked) -> SampleScores | None:
    """The scores of samples; None without any, or where the true answer is unknown."""
    if asked.problem is None or not samples:
        return None
    count, truth = len(samples), asked.problem.answer
    right = sum(is_right(each, asked) is True for each in samples)
    votes = maj_at_k([each.answer for each in samples], truth, count)
    return SampleScores(pass_at_k(count, right, 1), pass_at_k(count, right, count), votes)


def text_of(answer: Fraction | None) -> str | None:
    """An answer as text."""
    return None if answer is None else number_text(answer)


def document(solved: Solved) -> dict[str, Any]:
    """An answered question for ``--json``; what is unknown is left out, and an answer that is not there is null."""
    asked, chosen = solved.asked, solved.chosen
    found: dict[str, Any] = {
        "question": asked.question.text,
        "mode": solved.mode,
        "answer": text_of(chosen.answer),
        "completion": chosen.text,
        "finished": chosen.finished,
        **_against_truth(chosen, asked),
    }
    if asked.problem is not None:
        found["truth"] = text_of(asked.problem.answer)
    if chosen.logprobs is not None:
        found["perplexity"] = perplexity(chosen.logprobs)
    found["agents"] = [_agent(agent, asked) for agent in solved.agents]
    if solved.diversity is not None:
        found["diversity"] = asdict(solved.diversity)
    if solved.samples_diversity is not None:
        found["samples_diversity"] = asdict(solved.samples_diversity)
    return found


def _agent(agent: AgentAnswer, asked: Asked) -> dict[str, Any]:
    completion, samples = agent.completion, agent.samples
    found: dict[str, Any] = {
        "variant": agent.variant,
        "completion": completion.text,
        "answer": text_of(completion.answer),
        "finished": completion.finished,
        "perplexity": agent.perplexity,
        **_against_truth(completion, asked),
    }
    if agent.reference_perplexity is not None:
        found["reference_perplexity"] = agent.reference_perplexity
    if samples:
        most = samples[winner([each.answer for each in samples])].answer
        votes = sum(each.answer == most for each in samples) if most is not None else 0
        found["samples"] = {
            "count": len(samples),
            "answers": [text_of(each.answer) for each in samples],
            "majority": text_of(most),
            "majority_share": votes / len(samples),
        }
        scores = sample_scores(samples, asked)
        if scores is not None:
            k = len(samples)
            named = {"pass_at_1": scores.pass_at_1, f"pass_at_{k}": scores.pass_at_k, f"maj_at_{k}": scores.maj_at_k}
            found["samples"] |= named
    return found


def _against_truth(completion: Completion, asked: Asked) -> dict[str, Any]:
    found: dict[str, Any] = {}
    right, similar = is_right(completion, asked), similarity(completion, asked)
    if right is not None:
        found |= {"right": right, "exact_match": float(right)}
    if similar is not None:
        found["similarity"] = similar
    return found
