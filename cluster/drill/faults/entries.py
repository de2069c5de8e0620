"""Faults of what the replay server holds: damaged episodes and blocks, entries and values that no run wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cluster.drill.faults.context import CONDITION_TIMEOUT_S, CausedFault, DrillContext
from cluster.drill.replay_clients import ReplayClients
from services.replay.buffer import block_of

OVERSIZED_BYTES = 100_000_000


def damage(context: DrillContext) -> CausedFault:
    """Damage an episode that the learner has not read."""
    names = _when_possible(lambda store: store.damage_episode(context.rng), "episode that waits", context)
    return CausedFault(f"episode {names[0]}", poison=1)


def damage_block(context: DrillContext) -> CausedFault:
    """Damage every episode of a block of which the learner has read none."""
    size = context.block_size
    names = _when_possible(lambda store: store.damage_block(context.rng, size), "whole block that waits", context)
    return CausedFault(f"block {block_of(names[0])}", poison=len(names))


def append_later_version(context: DrillContext) -> CausedFault:
    """Append an episode as a rollout worker of a later version would."""
    with context.store() as store:
        name = store.append_later_version(context.rng)
    context.damaged.add(name)
    return CausedFault(f"episode {name}", poison=1)


def append_oversized(context: DrillContext) -> CausedFault:
    """Append an episode of far more bytes than the run reads."""
    with context.store() as store:
        name = store.append_oversized(context.rng, OVERSIZED_BYTES)
    context.damaged.add(name)
    return CausedFault(f"episode {name} of {OVERSIZED_BYTES / 1e6:g} MB", poison=1)


def write_foreign_values(context: DrillContext) -> CausedFault:
    """Write what no run writes into its keys: a lock, a role, a mirrored policy and an entry that are not UTF-8."""
    with context.store() as store:
        name = store.write_foreign_values(context.rng)
    context.damaged.add(name)
    context.seen_stored.add(name)  # it came from here
    return CausedFault("lock, role, policy and entry", poison=1)


def _when_possible(cause: Callable[[ReplayClients], Sequence[str]], what: str, context: DrillContext) -> Sequence[str]:
    """Try until the server has what can be damaged; note and return the names of the damaged episodes."""
    found: list[str] = []

    def caused() -> bool:
        with context.store() as store:
            found.extend(cause(store))
        return bool(found)

    context.training.wait(caused, f"{what} for the learner", CONDITION_TIMEOUT_S)
    context.damaged.update(found)
    return found
