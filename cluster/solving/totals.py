"""Totals over a file of questions, with 95 % intervals; questions are independent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from cluster.solving.answering import Asking, Solved
from cluster.solving.scoring import is_right, sample_scores, similarity
from grpo_core.statistics.estimate import SHARE, Estimate, Range
from grpo_core.statistics.means import stratified_mean
from grpo_core.statistics.paired import paired_difference
from grpo_core.statistics.rates import stratified_rate

POSITIVE: Range = (0.0, math.inf)
COSINE: Range = (-1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Contrast:
    """The same figure of two ways to answer each question, and their paired difference, the second minus the first."""

    first: Estimate
    second: Estimate
    difference: Estimate


@dataclass(frozen=True, slots=True)
class Totals:
    """Figures over all questions; None where they are unknown, or there is one agent."""

    mode: str
    agents: int
    samples: int
    temperature: float  # of the samples
    answer_temperature: float  # of each variant's own answer
    questions: int
    with_truth: int
    without_answer: int
    right: Estimate | None  # share of questions with a right answer of all agents
    by_variant: dict[str, Estimate]  # share of the variant's own answers that are right
    gain: Contrast | None  # of the answer of all agents over the mean single agent
    pass_at_1: Estimate | None  # of the samples, mean over agents
    pass_at_k: Estimate | None
    maj_at_k: Estimate | None
    similarity: Estimate | None  # of the answer of all agents, to the worked solution
    perplexity: Estimate | None  # geometric mean over questions and agents, of their own answers
    reference_perplexity: Estimate | None
    cosine: Contrast | None  # mean pairwise cosine: of as many samples of one agent, then of the agents
    effective_rank: Contrast | None


def totals_of(solved: Sequence[Solved], asking: Asking) -> Totals:
    """Total at least one answered question; all were put in the same way to the same agents."""
    known = [each for each in solved if each.asked.problem is not None]
    variants = [agent.variant for agent in solved[0].agents]
    chosen = [is_right(each.chosen, each.asked) is True for each in known]
    single = [[is_right(agent.completion, each.asked) is True for agent in each.agents] for each in known]
    by_variant = {name: _rate([row[place] for row in single]) for place, name in enumerate(variants)}
    scores = [[sample_scores(agent.samples, each.asked) for agent in each.agents] for each in known]
    scored = [[one for one in row if one is not None] for row in scores if all(row)]
    compared = [(each.diversity, each.samples_diversity) for each in solved]
    pairs = [(one, other) for other, one in compared if other is not None and one is not None]
    return Totals(
        mode=solved[0].mode,
        agents=len(variants),
        samples=len(solved[0].agents[0].samples),
        temperature=asking.temperature,
        answer_temperature=asking.answer_temperature,
        questions=len(solved),
        with_truth=len(known),
        without_answer=sum(each.chosen.answer is None for each in solved),
        right=_rate(chosen),
        by_variant={name: rate for name, rate in by_variant.items() if rate is not None},
        gain=contrast([fmean(row) for row in single], [float(each) for each in chosen], SHARE)
        if len(variants) > 1
        else None,
        pass_at_1=_mean([fmean(one.pass_at_1 for one in row) for row in scored], SHARE),
        pass_at_k=_mean([fmean(one.pass_at_k for one in row) for row in scored], SHARE),
        maj_at_k=_mean([fmean(one.maj_at_k for one in row) for row in scored], SHARE),
        similarity=_mean(_known(similarity(each.chosen, each.asked) for each in known), SHARE),
        perplexity=_geometric(solved, lambda each: [agent.perplexity for agent in each.agents]),
        reference_perplexity=_geometric(solved, lambda each: [agent.reference_perplexity for agent in each.agents]),
        cosine=contrast([one.mean_cosine for one, _ in pairs], [other.mean_cosine for _, other in pairs], COSINE),
        effective_rank=contrast(
            [one.effective_rank for one, _ in pairs],
            [other.effective_rank for _, other in pairs],
            (1.0, float(len(variants))),
        ),
    )


def contrast(first: Sequence[float], second: Sequence[float], within: Range) -> Contrast | None:
    """Compare two figures of each question, which are ``within`` a range; None without questions."""
    one, other = _mean(first, within), _mean(second, within)
    widest = within[1] - within[0]
    between = paired_difference(first, second, (-widest, widest))
    return None if one is None or other is None or between is None else Contrast(one, other, between)


def totals_document(totals: Totals) -> dict[str, Any]:
    """The totals for ``--json``; each figure has its interval under ``..._ci95``, null where there is none."""
    k = totals.samples
    found: dict[str, Any] = {
        "mode": totals.mode,
        "temperature": totals.temperature,
        "answer_temperature": totals.answer_temperature,
        "questions": totals.questions,
        "with_truth": totals.with_truth,
        "without_answer": totals.without_answer,
    }
    named = {
        "exact_match": totals.right,
        "single_agent": None if totals.gain is None else totals.gain.first,
        "gain_over_single_agent": None if totals.gain is None else totals.gain.difference,
        "pass_at_1": totals.pass_at_1,
        f"pass_at_{k}": totals.pass_at_k,
        f"maj_at_{k}": totals.maj_at_k,
        "similarity": totals.similarity,
        "perplexity": totals.perplexity,
        "reference_perplexity": totals.reference_perplexity,
    }
    for name, estimate in named.items():
        found |= _figure(name, estimate)
    found["by_variant"] = {name: _figure("exact_match", rate) for name, rate in totals.by_variant.items()}
    for name, compared in (("mean_cosine", totals.cosine), ("effective_rank", totals.effective_rank)):
        if compared is not None:
            found.setdefault("diversity", {})[name] = {
                **_figure("agents", compared.second),
                **_figure("samples_of_one_agent", compared.first),
                **_figure("difference", compared.difference),
            }
    return found


def _figure(name: str, estimate: Estimate | None) -> dict[str, Any]:
    if estimate is None:
        return {}
    return {name: estimate.mean, f"{name}_ci95": None if estimate.interval is None else list(estimate.interval)}


def _rate(flags: Sequence[bool]) -> Estimate | None:
    return stratified_rate({"questions": flags})


def _mean(values: Sequence[float], within: Range) -> Estimate | None:
    return stratified_mean({"questions": values}, within)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _geometric(solved: Sequence[Solved], figures: Callable[[Solved], Sequence[float | None]]) -> Estimate | None:
    """The geometric mean of perplexities, of which a few may be huge: each question counts by its mean logarithm."""
    found = [_known(figures(each)) for each in solved]
    logs = _mean([fmean(map(math.log, each)) for each in found if each], POSITIVE)
    if logs is None:
        return None
    low, high = (None if end is None else math.exp(end) for end in (logs.low, logs.high))
    return Estimate(math.exp(logs.mean), low, high, logs.n)
