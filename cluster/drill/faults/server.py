"""Faults of the replay server: full for a moment or for good, or away for a while."""

from __future__ import annotations

import time

from cluster.drill.faults.context import CONDITION_TIMEOUT_S, CausedFault, DrillContext

BRIEF_S = 3.0  # less than the run's time limits


def fill(for_good: bool, context: DrillContext) -> CausedFault:
    """Limit the server's memory until an episode is refused; unless for good, lift the limit a little later."""
    with context.store() as store:
        before = store.refusals()
        store.limit_memory(1)
        context.training.wait(
            lambda: store.refusals() > before, "episode that a full server refuses", CONDITION_TIMEOUT_S
        )
    if for_good:
        return CausedFault("full from the first refusal on")
    time.sleep(BRIEF_S)
    with context.store() as store:
        store.limit_memory(0)
    return CausedFault(f"full for {BRIEF_S:g} s after the first refusal")


def stop_external(context: DrillContext) -> CausedFault:
    """Let an external server answer nothing for longer than one that is there may take."""
    server = context.rng.choice(context.external)
    server.stop()
    time.sleep(context.stopped_s)
    server.go_on()
    return CausedFault(f"no answer for {context.stopped_s:g} s")


def kill_external(context: DrillContext) -> CausedFault:
    """Kill an external server, and start it again with its data after longer than one that is there may take."""
    server = context.rng.choice(context.external)
    server.kill()
    time.sleep(context.stopped_s)
    server.start_again()
    return CausedFault(f"killed, and started again after {context.stopped_s:g} s")
