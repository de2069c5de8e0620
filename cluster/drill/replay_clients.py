"""The replay servers of a drill's run as one: what the run has stored on any of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from cluster.drill.replay_client import ReplayClient


class ReplayClients:
    """One run's keys on the servers at ``urls``; a context manager. A fault concerns one random server of them."""

    def __init__(self, urls: Sequence[str], run_id: str) -> None:
        self._clients = [ReplayClient(url, run_id) for url in urls]
        self._stack = ExitStack()

    def __enter__(self) -> ReplayClients:
        for client in self._clients:
            self._stack.enter_context(client)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def damage_episode(self, rng: random.Random) -> list[str]:
        """See ``ReplayClient.damage_episode``."""
        return self._first(rng, lambda client: client.damage_episode(rng))

    def damage_block(self, rng: random.Random, size: int) -> list[str]:
        """See ``ReplayClient.damage_block``."""
        return self._first(rng, lambda client: client.damage_block(rng, size))

    def append_later_version(self, rng: random.Random) -> str:
        """See ``ReplayClient.append_later_version``."""
        return self._used(rng).append_later_version(rng)

    def append_oversized(self, rng: random.Random, size: int) -> str:
        """See ``ReplayClient.append_oversized``."""
        return self._used(rng).append_oversized(rng, size)

    def write_foreign_values(self, rng: random.Random) -> str:
        """See ``ReplayClient.write_foreign_values``."""
        return self._used(rng).write_foreign_values(rng)

    def limit_memory(self, size: int) -> None:
        """Set ``maxmemory`` of every server in bytes; 0: no limit."""
        for client in self._clients:
            client.limit_memory(size)

    def refusals(self) -> int:
        """Commands that the servers have refused for full memory since they started."""
        return sum(client.refusals() for client in self._clients)

    def counters(self) -> dict[str, int]:
        """The sums of ``ReplayClient.counters``."""
        return dict(sum((Counter(client.counters()) for client in self._clients), Counter[str]()))

    def stored(self) -> frozenset[str]:
        """See ``ReplayClient.stored``."""
        return frozenset().union(*(client.stored() for client in self._clients))

    def waiting(self) -> dict[str, bytes]:
        """See ``ReplayClient.waiting``."""
        return {name: data for client in self._clients for name, data in client.waiting().items()}

    def poison(self) -> list[str]:
        """See ``ReplayClient.poison``."""
        return [name for client in self._clients for name in client.poison()]

    def _first(self, rng: random.Random, act: Callable[[ReplayClient], list[str]]) -> list[str]:
        """What ``act`` did on the first server, in random order, on which it could do anything."""
        for client in rng.sample(self._clients, len(self._clients)):
            if done := act(client):
                return done
        return []

    def _used(self, rng: random.Random) -> ReplayClient:
        """A random server that has a role already."""
        return rng.choice([client for client in self._clients if client.has_roles()] or self._clients)
