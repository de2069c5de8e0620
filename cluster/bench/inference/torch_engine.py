"""Decisions and completion tokens a second of the torch engine on real positions, beside ``transformers.generate``."""

from __future__ import annotations

import statistics
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

from cluster.bench.figure import Figure, one_thread
from cluster.bench.inference.hosts import EngineHost, Load, PlainHost, Written
from cluster.bench.inference.policies import real_requests, save_small_policy
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
    written: dict[str, list[Written]] = defaultdict(list)
    with one_thread(), TemporaryDirectory(prefix="entente-bench-") as place:
        policy = save_small_policy(Path(place))
        plain = PlainHost(policy.folder, policy.other_weights, requests)
        with host_process(
            "torch engine", actor_variables(1), EngineHost, "torch", policy.folder, BATCH, requests
        ) as host:
            length = round(host.call(EngineHost.write, ALL_AT_ONCE).tokens / DECISIONS)  # warms up, too
            plain.write(Load(8, 8))
            for _ in range(rounds):
                written["ours"].append(host.call(EngineHost.write, ALL_AT_ONCE))
                written["masked"].append(plain.write(IN_BATCHES))
                written["unmasked"].append(plain.write(IN_BATCHES, unmasked_length=length))
    seconds = {side: statistics.median(each.seconds for each in all_) for side, all_ in written.items()}
    rate = {side: statistics.median(each.tokens for each in all_) / seconds[side] for side, all_ in written.items()}
    prompt = statistics.mean(len(request.prompt_ids) for request in requests)
    note = (
        f"prompts of {prompt:.0f} tokens, sheets of {length}, 1 thread, {BATCH} at a time, median of {rounds}; "
        "the engine in an actor's environment, generate in a plain process"
    )
    masked, unmasked = "transformers.generate, same masks", "transformers.generate, no mask"
    return [
        Figure("decisions", "1/s", DECISIONS / seconds["ours"], DECISIONS / seconds["masked"], masked, note=note),
        Figure("completion tokens", "1/s", rate["ours"], rate["masked"], masked, note=note),
        Figure("completion tokens", "1/s", rate["ours"], rate["unmasked"], unmasked, note=note),
    ]
