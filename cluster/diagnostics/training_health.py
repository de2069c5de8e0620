"""The health of a training from its metrics: speed, learning, divergence, data, lost workers, the server's memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, median

from cluster.diagnostics.finding import Finding, ok, warn
from cluster.runs.counters import NONFINITE

RECENT = 20  # updates that count as recent
ENOUGH = 30  # updates that a trend needs
SIGMAS = 2.0
IDLE = 0.5  # share of the time that one side may wait for the other without a warning
MOST_KL = 0.1  # nats a token between behaviour and learner; a clipped update keeps it well below
MOST_RATIO = 30.0  # importance ratio of one token
GRADIENT_GROWTH = 10.0
LEAST_ENTROPY = 0.2  # of the first updates' entropy
MANY = 0.05  # share of orders, decisions or episodes that went wrong
TOO_MANY = 0.5  # share of samples
FULL = 0.8  # of the replay server's memory

Series = Mapping[str, Sequence[float]]  # by metric, one value for each update that has it


def examine_training(series: Series, updates: int) -> list[Finding]:
    """Check the metrics of this many updates; before the second one only divergence."""
    if updates < 2:
        early = [*_diverging(series)] if _latest(series, NONFINITE) else []
        return [*early, ok("learning", f"{updates} updates so far: too few to say anything")]
    checks = (_slow, _flat, _diverging, _data, _losses, _memory)
    return [finding for check in checks for finding in check(series)]


def _slow(series: Series) -> Iterator[Finding]:
    seconds = _growth(series, "entente_run_seconds_total")
    if not seconds:
        return
    learner = _growth(series, "entente_learner_busy_seconds_total") / seconds
    workers = _lately(series, "entente_workers") or 1.0
    rollouts = _growth(series, "entente_rollout_busy_seconds_total") / seconds / workers
    text = f"lately the learner was busy for {learner:.0%} of the time, an engine for {rollouts:.0%}"
    if learner < IDLE <= rollouts:
        advice = "the learner waits for games: more rollout.actors, or rollout.max_actors on a cluster"
        yield warn("speed", f"{text}; {advice}")
    elif learner < IDLE:
        yield warn(
            "speed",
            f"{text}; both wait: allow more games at once (rollout.games_per_actor, "
            "inference.max_concurrent_decisions) or a larger rollout.max_staleness; bots, endpoints or a machine with "
            "other work may be what is slow",
        )
    else:
        yield ok("speed", text)
    every = series.get("entente_update_seconds", ())
    if len(every) >= ENOUGH and median(every[-RECENT:]) > 2 * median(every[1 : RECENT + 1]):
        yield warn(
            "speed",
            f"an update takes {median(every[-RECENT:]):.0f} s, and took {median(every[1 : RECENT + 1]):.0f} s in the "
            "beginning: longer games, more snapshots as opponents (opponents.max_snapshots), or memory that runs out",
        )


def _flat(series: Series) -> Iterator[Finding]:
    rewards = series.get("entente_episode_reward", ())
    if len(rewards) < ENOUGH:
        yield ok("learning", f"{len(rewards)} updates so far: too few to speak of a trend")
        return
    half = len(rewards) // 2
    gain, error = fmean(rewards[half:]) - fmean(rewards[:half]), _error_of_difference(rewards[:half], rewards[half:])
    text = f"mean return {fmean(rewards[:half]):.3g} in the first half of the run, {fmean(rewards[half:]):.3g} since"
    if gain < -SIGMAS * error:
        yield warn(
            "learning",
            f"{text}: it falls; opponents that became stronger (compare evaluations against fixed bots), or else a "
            "smaller learner.learning_rate, and see divergence below",
        )
    elif gain <= SIGMAS * error:
        flat = _lately(series, "entente_zero_variance_fraction") or 0.0
        advice = (
            f"{flat:.0%} of the samples are in zero-variance groups: denser game.reward, or coarser grouping.keys"
            if flat > TOO_MANY
            else "a larger learner.learning_rate, learner.returns = per_phase, weaker opponents first, or a warm start "
            "(entente imitate); entente groups audit says what its groups explain"
        )
        yield warn("learning", f"{text}: no rise to be seen; {advice}")
    else:
        yield ok("learning", text)


def _diverging(series: Series) -> Iterator[Finding]:
    signs = []
    if (kl := _lately(series, "entente_kl")) is not None and kl > MOST_KL:
        signs.append(f"KL of behaviour to learner {kl:.2g} nats a token (usual: below {MOST_KL})")
    if (ratio := _lately(series, "entente_ratio_max")) is not None and ratio > MOST_RATIO:
        signs.append(f"importance ratios up to {ratio:.3g}")
    norms = series.get("entente_grad_norm", ())
    if len(norms) >= ENOUGH and median(norms[-RECENT:]) > GRADIENT_GROWTH * max(median(norms[:RECENT]), 1e-12):
        signs.append(f"gradient norms grew from {median(norms[:RECENT]):.2g} to {median(norms[-RECENT:]):.2g}")
    entropy = series.get("entente_entropy", ())
    if len(entropy) >= ENOUGH and median(entropy[-RECENT:]) < LEAST_ENTROPY * median(entropy[:RECENT]):
        signs.append(
            f"entropy fell from {median(entropy[:RECENT]):.2g} to {median(entropy[-RECENT:]):.2g} nats a token"
        )
    if broken := _latest(series, NONFINITE):
        signs.append(f"{broken:.0f} updates with figures that were not finite numbers")
    if signs:
        yield warn(
            "divergence",
            "; ".join(signs) + ": a smaller learner.learning_rate, fewer learner.epochs or minibatches, a smaller "
            "rollout.max_staleness, or learner.beta above 0 hold the policy back",
        )
    else:
        yield ok("divergence", "no sign of it")


def _data(series: Series) -> Iterator[Finding]:
    decisions = _growth(series, "entente_decisions_total")
    episodes = _growth(series, "entente_episodes_total")
    troubles = []
    if decisions and (share := _growth(series, "entente_truncated_decisions_total") / decisions) > MANY:
        troubles.append(f"{share:.0%} of the decisions are cut off: raise inference.max_completion_length")
    if decisions and (share := _growth(series, "entente_defective_orders_total") / decisions) > MANY:
        troubles.append(f"{share:.2f} defective orders a decision: inference.decoding = constrained writes none")
    if episodes and (share := _growth(series, "entente_stale_episodes_total") / episodes) > MANY:
        troubles.append(
            f"{share:.0%} of the episodes are too old: see that no actor hangs, or allow more max_staleness"
        )
    if (coarse := _lately(series, "entente_fallback_fraction")) is not None and coarse > TOO_MANY:
        troubles.append(
            f"{coarse:.0%} of the samples are judged by a coarser key than the first: larger rollout.num_generations "
            "or learner.episodes_per_update, or fewer facts in grouping.keys"
        )
    if (flat := _lately(series, "entente_zero_variance_fraction")) is not None and flat > TOO_MANY:
        troubles.append(
            f"{flat:.0%} of the samples are in zero-variance groups: denser game.reward, or learner.top_up_episodes"
        )
    if poison := _latest(series, "entente_poison_episodes_total"):
        troubles.append(f"{poison:.0f} entries of the buffer could not be read: does anything else write to it?")
    if troubles:
        yield warn("data", "; ".join(troubles))
    else:
        yield ok("data", "sound")


def _losses(series: Series) -> Iterator[Finding]:
    restarts = _latest(series, "entente_worker_restarts_total")
    failed = {
        name.partition("cause=")[2].rstrip("}"): values[-1]
        for name, values in series.items()
        if name.startswith("entente_swap_failures_total{") and values[-1]
    }
    if not restarts and not failed:
        yield ok("workers", "none was lost")
        return
    causes = ", ".join(f"{count:.0f} {cause}" for cause, count in sorted(failed.items()))
    swaps = f"; weights that did not arrive: {causes}" if failed else ""
    grew = _growth(series, "entente_worker_restarts_total")
    text = f"{restarts:.0f} rollout actors were replaced{swaps}"
    if grew > 1:
        yield warn("workers", f"{text}; {grew:.0f} of them lately: see the run's log for the reasons")
    else:
        yield ok("workers", text)


def _memory(series: Series) -> Iterator[Finding]:
    used = _latest(series, "entente_buffer_server_bytes")
    limit = _latest(series, "entente_buffer_server_bytes_limit")
    if not used:
        return
    text = f"the replay server uses {used / 2**20:.0f} MiB" + (f" of {limit / 2**20:.0f}" if limit else "")
    if limit and used > FULL * limit:
        advice = "raise its maxmemory; episodes leave when the checkpoint that used them is written "
        yield warn("replay memory", f"{text}: {advice}(learner.checkpoint_every)")
    else:
        yield ok("replay memory", text)


def _latest(series: Series, name: str) -> float:
    values = series.get(name, ())
    return values[-1] if values else 0.0


def _lately(series: Series, name: str) -> float | None:
    values = series.get(name, ())
    return median(values[-RECENT:]) if values else None


def _growth(series: Series, name: str) -> float:
    """The growth of a counter over the recent updates."""
    values = series.get(name, ())
    return values[-1] - values[-min(len(values), RECENT + 1)] if values else 0.0


def _error_of_difference(first: Sequence[float], second: Sequence[float]) -> float:
    """Standard error of the difference of the means.

    The variance of each half is estimated from its successive differences (von Neumann), which a trend hardly changes.
    """

    def variance(values: Sequence[float]) -> float:
        steps = [(later - value) ** 2 for value, later in pairwise(values)]
        return fmean(steps) / 2 if steps else 0.0

    return math.sqrt(variance(first) / len(first) + variance(second) / len(second))
