"""Decisions and completion tokens a second of the torch engine on real positions, beside ``transformers.generate``."""

from __future__ import annotations

import statistics
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from cluster.bench.figure import Figure, one_thread
from cluster.bench.inference.hosts import EngineHost, Load, PlainHost, median_rates
from cluster.bench.inference.policies import real_requests, save_policy
from cluster.bench.processes import host_process
from cluster.runtime.actor_env import actor_variables

BATCH = 64
DECISIONS = 5 * BATCH
ALL_AT_ONCE = Load(in_flight=DECISIONS, decisions=DECISIONS)  # the engine itself takes 64 at a time
IN_BATCHES = Load(in_flight=BATCH, decisions=DECISIONS)


def run(rounds: int) -> list[Figure]:
    """Write the same decisions on both sides in alternating rounds: small policy, one thread, 64 decisions at a time.

    ``transformers.generate`` runs in left-padded batches of 64, once under the same masks (through
    ``prefix_allowed_tokens_fn``) and once without masks for as many tokens (its best case).
    """
    requests = real_requests(DECISIONS)
    with one_thread(), TemporaryDirectory(prefix="entente-bench-") as place:
        policy = save_policy(None, Path(place))
        plain = PlainHost(policy.folder, policy.other_weights, requests)
        with host_process(actor_variables(1), EngineHost, "torch", policy.folder, BATCH, requests) as host:
            warm_up = host.call(EngineHost.write, ALL_AT_ONCE)
            length = round(warm_up.tokens / warm_up.decisions)
            plain.write(Load(8, 8))
            rate = median_rates(
                {
                    "ours": partial(host.call, EngineHost.write, ALL_AT_ONCE),
                    "masked": partial(plain.write, IN_BATCHES),
                    "unmasked": partial(plain.write, IN_BATCHES, unmasked_length=length),
                },
                rounds,
            )
    prompt = statistics.mean(len(request.prompt_ids) for request in requests)
    note = (
        f"prompts of {prompt:.0f} tokens, sheets of {length}, 1 thread, {BATCH} at a time, median of {rounds}; "
        "the engine in an actor's environment, generate in a plain process"
    )
    ours, masked, unmasked = rate["ours"], "transformers.generate, same masks", "transformers.generate, no mask"
    return [
        Figure("decisions", "1/s", ours.decisions, rate["masked"].decisions, masked, note=note),
        Figure("completion tokens", "1/s", ours.tokens, rate["masked"].tokens, masked, note=note),
        Figure("completion tokens", "1/s", ours.tokens, rate["unmasked"].tokens, unmasked, note=note),
    ]
