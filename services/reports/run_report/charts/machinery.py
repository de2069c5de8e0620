"""Throughput, the learner's figures, and what rewards are made of."""

from __future__ import annotations

from services.reports.colors import SERIES
from services.reports.run_report.charts.chart import (
    Chart,
    averaged,
    course,
    line,
    make_chart,
    raw_and_smooth,
    shown,
    smooth_line,
)
from services.reports.run_report.data import RunData

# name, title, unit, counter, per seconds, note
_RATES = (
    ("games", "Games", "games / h", "entente_games_total", 3600.0, "Training games that ended per hour."),
    ("decisions", "Decisions", "decisions / s", "entente_decisions_total", 1.0, "Answers of the policy per second."),
    (
        "completions", "Tokens written", "tokens / s", "entente_completion_tokens_total", 1.0,
        "Tokens that the engines wrote, those that a mask forced included.",
    ),
    (
        "learned", "Tokens learned from", "tokens / s", "entente_learner_tokens_total", 1.0,
        "Tokens of prompts and completions that went through the learner.",
    ),
)  # fmt: skip
# name, title, unit, key, whether the axis begins at 0, note
_GAUGES = (
    ("reward", "Mean return", "reward", "entente_episode_reward", False,
     "Mean reward of an update's episodes; higher is better."),
    ("loss", "Loss", "", "entente_loss", False,
     "Policy loss; near 0 by construction, so read its size and not its trend."),
    ("entropy", "Entropy", "nats / token", "entente_entropy", True,
     "How undecided the policy is; near 0 it no longer explores."),
    ("kl", "KL to behaviour (k3)", "nats / token", "entente_kl", True,
     "How far the policy moved from the one that played; large values mean that data are too old."),
    ("grad-norm", "Gradient norm", "", "entente_grad_norm", True,
     "Before clipping; peaks mark updates that a few samples decided."),
    ("clip", "Clipped tokens", "share", "entente_clip_fraction", True,
     "Tokens whose ratio left the trust region, so that they taught nothing."),
    ("zero-variance", "Samples in zero-variance groups", "share", "entente_zero_variance_fraction", True,
     "Samples without an advantage, because all returns of their group are equal."),
    ("defects", "Defective orders", "orders, in all", "entente_defective_orders_total", True,
     "Orders that were unreadable, illegal or missing, summed since the start."),
)  # fmt: skip


def speed(run: RunData) -> list[Chart]:
    """Return what was done by the hour or second of training."""
    made = [
        make_chart(f"speed-{name}", "speed", title, unit, raw_and_smooth(run.rate(key, per), title), note, zero=True)
        for name, title, unit, key, per, note in _RATES
    ]
    parts = (
        ("learner", "entente_learner_busy_seconds_total", SERIES[1]),
        ("rollout workers, summed", "entente_rollout_busy_seconds_total", SERIES[0]),
        ("both at once", "entente_overlap_seconds_total", SERIES[2]),
    )
    busy = [smooth_line(run.rate(key), name, color) for name, key, color in parts]
    note = "Seconds of work in each second of the clock; workers together may exceed 1."
    made.append(make_chart("speed-busy", "speed", "Busy", "seconds / second", busy, note, legend=True, zero=True))
    swap = [line(run.series("entente_weight_swap_seconds"), "swap", SERIES[0])]
    note = "From a finished update to an engine that plays with its weights, mean over engines."
    made.append(make_chart("speed-swap", "speed", "Weight swap", "seconds", swap, note, zero=True))
    return made


def learning(run: RunData) -> list[Chart]:
    """Return the learner's figures by update."""
    made = [
        make_chart(f"learning-{name}", "learning", title, unit, raw_and_smooth(run.series(key), title), note, zero=zero)
        for name, title, unit, key, zero, note in _GAUGES
    ]
    thoughts = [
        line(run.series("entente_thought_tokens"), "mean", SERIES[0]),
        line(run.series("entente_thought_tokens_max"), "longest", SERIES[1]),
    ]
    note = "What the policy wrote before its answer; a longest one at the limit was cut off."
    made.append(
        make_chart("learning-thoughts", "learning", "Thoughts", "tokens", thoughts, note, legend=True, zero=True)
    )
    staleness = [
        line(run.series("entente_staleness_updates"), "mean", SERIES[0]),
        line(run.series("entente_staleness_updates_max"), "largest", SERIES[1]),
    ]
    note = "Updates between the weights that played and those that learned."
    made.append(
        make_chart("learning-staleness", "learning", "Staleness", "updates", staleness, note, legend=True, zero=True)
    )
    return made


def rewards(run: RunData) -> list[Chart]:
    """Return the parts of the reward by update."""
    parts = [
        line(run.series(f"entente_reward_part{{part={part}}}"), shown(part), SERIES[i % len(SERIES)])
        for i, part in enumerate(run.label_values("entente_reward_part"))
    ]
    note = "Mean of each part of the reward in an update's episodes, before the weights of the configuration."
    options = {"legend": True, "full": True}
    return [make_chart("learning-parts", "learning", "Reward parts, unweighted", "mean", parts, note, **options)]


def levels(run: RunData) -> list[Chart]:
    """Return the samples in groups of each level of the fallback chain, and the mean size of these groups."""
    names = list(run.audits[-1].keys) if run.audits else []
    names += [level for level in run.label_values("entente_groups") if level not in names]
    updates = sorted({x for level in names for x in run.series(f"entente_groups{{level={level}}}")[0]})
    counts, sizes = [], []
    for i, level in enumerate(names):
        color = SERIES[i % len(SERIES)]
        size = run.series(f"entente_group_size{{level={level}}}")
        groups = dict(zip(*run.series(f"entente_groups{{level={level}}}"), strict=True))
        samples = {x: groups.get(x, 0.0) * mean for x, mean in zip(*size, strict=True)}
        if samples:
            xs, ys = averaged((updates, [samples.get(x, 0.0) for x in updates]))
            said = course(shown(level), (xs, ys))
            bars = {"type": "bar", "x": xs, "y": ys, "name": shown(level), "say": said}
            counts.append({**bars, "marker": {"color": color}})
        sizes.append(line(averaged(size), shown(level), color))
    samples_note = (
        "Samples that each level of the fallback chain judged; colours beyond the first are groups that were too small "
        "under a finer key."
    )
    sizes_note = "Samples that a group of the level judged, on average; a mean of few samples is a noisy baseline."
    options = {"legend": True, "stacked": True}
    return [
        make_chart("groups-samples", "groups", "Samples by level", "samples", counts, samples_note, **options),
        make_chart("groups-size", "groups", "Mean group size", "samples", sizes, sizes_note, legend=True, zero=True),
    ]
