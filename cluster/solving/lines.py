"""Answers and totals as lines of text."""

from __future__ import annotations

from cluster.solving.answering import Diversity, Solved
from cluster.solving.scoring import is_right, sample_scores, text_of
from cluster.solving.totals import Contrast, Totals
from grpo_core.errors import one_line
from grpo_core.statistics.estimate import Estimate

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
_LONGEST_COMPLETION = 2000  # characters of a shown completion
_MARKS = {True: "right", False: "wrong", None: ""}


def answer_lines(solved: Solved) -> list[str]:
    """One question: the answer, each agent's, and how diverse they are."""
    asked, chosen = solved.asked, solved.chosen
    mark = _MARKS[is_right(chosen, asked)]
    lines = [f"{solved.mode}: {text_of(chosen.answer) or 'no answer'}{f' ({mark})' if mark else ''}"]
    width = max(len(agent.variant) for agent in solved.agents)
    for agent in solved.agents:
        completion = agent.completion
        right = _MARKS[is_right(completion, asked)]
        parts = [f"{text_of(completion.answer) or '-':<10}", *([f"{right:<5}"] if right else [])]
        parts.append(f"perplexity {agent.perplexity:.2f}")
        if agent.samples:
            same = sum(each.answer == completion.answer is not None for each in agent.samples)
            parts.append(f"{same} of {len(agent.samples)} samples agree")
            scores = sample_scores(agent.samples, asked)
            if scores is not None:
                k = len(agent.samples)
                parts.append(f"pass@1 {scores.pass_at_1:.2f}, pass@{k} {scores.pass_at_k:.0f}, ")
                parts[-1] += f"maj@{k} {scores.maj_at_k:.2f}"
        lines.append(f"  {agent.variant:<{width}}  " + "  ".join(parts))
    if solved.diversity is not None:
        lines.append(f"  diversity of a sample of each: {_diversity(solved.diversity)}")
    if solved.samples_diversity is not None:
        count = len(solved.agents)
        lines.append(
            f"  of {_count(count)} samples of {solved.agents[0].variant}: {_diversity(solved.samples_diversity)}"
        )
    cut = "" if chosen.finished else " (cut off)"
    return [*lines, f"completion{cut}: {one_line(chosen.text, _LONGEST_COMPLETION)}"]


def totals_lines(totals: Totals) -> list[str]:
    """The totals of a file; shares in percent, with 95 % intervals."""
    truth = "all" if totals.with_truth == totals.questions else f"{totals.with_truth:,}"
    sampled = f"answers at temperature {totals.answer_temperature:g}; " if totals.answer_temperature else ""
    lines = [
        f"{totals.questions:,} questions, {truth} with a true answer; no answer to {totals.without_answer:,}; {sampled}"
        "[95 % intervals]"
    ]
    k = totals.samples
    rows = [
        (totals.mode, totals.right),
        *((f"  {name}", rate) for name, rate in totals.by_variant.items()),
        (f"pass@1 of {k} samples", totals.pass_at_1),
        (f"pass@{k}", totals.pass_at_k),
        (f"maj@{k}", totals.maj_at_k),
    ]
    lines += [f"  {name:<22} {_percent(estimate)}" for name, estimate in rows if estimate is not None]
    others = (
        ("similarity", totals.similarity),
        ("perplexity", totals.perplexity),
        ("of the true answer", totals.reference_perplexity),
    )
    lines += [f"  {name:<22} {_plain(estimate)}" for name, estimate in others if estimate is not None]
    if totals.gain is not None:
        lines.append(gain_line(totals.mode, totals.gain))
    if totals.cosine is not None and totals.effective_rank is not None:
        lines += diversity_lines(totals, totals.cosine, totals.effective_rank)
    return lines


def gain_line(mode: str, gain: Contrast) -> str:
    """What answering together brings over the mean single agent, in words."""
    share = f"{mode} {gain.second.mean:.1%}, mean single agent {gain.first.mean:.1%}: "
    between = gain.difference
    points = f"{100 * between.mean:+.1f} points"
    if between.low is None or between.high is None:
        return f"{share}{points}; too few or too equal questions for an interval"
    points += f" [{100 * between.low:+.1f}, {100 * between.high:+.1f}], paired by question"
    if between.low > 0:
        return f"{share}{points}: better"
    return f"{share}{points}: {'worse' if between.high < 0 else 'no difference can be told from chance'}"


def diversity_lines(totals: Totals, cosine: Contrast, rank: Contrast) -> list[str]:
    """Whether the agents differ more than samples of one agent do, by the mean cosine."""
    agents = f"{_count(totals.agents)} agents (a sample each)"
    samples = f"{_count(totals.agents)} samples of one agent (temperature {totals.temperature:g})"
    between = cosine.difference
    if between.high is not None and between.high < 0:
        verdict = f"the {agents} are more diverse than {samples}"
    else:
        verdict = f"the {agents} are no more diverse than {samples}"
        if between.low is not None and between.low > 0:
            verdict += ": they are less"
    return [
        f"  {'mean cosine':<22} agents {_plain(cosine.second)}, samples {_plain(cosine.first)}, "
        f"difference {_plain(between, sign='+')}",
        f"  {'effective rank':<22} agents {_plain(rank.second)}, samples {_plain(rank.first)}, "
        f"difference {_plain(rank.difference, sign='+')}",
        verdict,
    ]


def _count(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)


def _diversity(diversity: Diversity) -> str:
    return f"mean cosine {diversity.mean_cosine:.3f}, effective rank {diversity.effective_rank:.2f}"


def _percent(estimate: Estimate) -> str:
    interval = estimate.interval
    bounds = "" if interval is None else f" [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"
    return f"{100 * estimate.mean:.1f} %{bounds}"


def _plain(estimate: Estimate, sign: str = "") -> str:
    interval = estimate.interval
    bounds = "" if interval is None else f" [{interval[0]:{sign}.3f}, {interval[1]:{sign}.3f}]"
    return f"{estimate.mean:{sign}.3f}{bounds}"
