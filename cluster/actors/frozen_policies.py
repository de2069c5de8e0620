"""The population's snapshots in a rollout actor's engine: each is loaded at its first use, and unloaded when idle."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager

from opponents.population.member import Member
from services.environments.playing import Policy


class FrozenPolicies:
    """Loads snapshots at their first use; blocks that need the same new one share one load."""

    def __init__(
        self, load: Callable[[Member], Awaitable[Policy]], unload: Callable[[str], None], max_loaded: int
    ) -> None:
        """Load nothing yet. ``load`` puts a member's weights into the engine, ``unload`` removes those of an id.

        Idle snapshots are unloaded, the oldest first, while more than ``max_loaded`` are loaded.
        """
        self._load = load
        self._unload = unload
        self._max_loaded = max_loaded
        self._loaded: dict[str, Policy] = {}  # by member id, the oldest first
        self._loads: dict[str, asyncio.Task[Policy]] = {}  # under way
        self._users: Counter[str] = Counter()  # running blocks, by member id

    @contextmanager
    def in_use(self, member_ids: Iterable[str]) -> Iterator[None]:
        """Keep these members loaded during the block, then unload what is idle."""
        ids = list(member_ids)
        self._users.update(ids)
        try:
            yield
        finally:
            self._users.subtract(ids)
            idle = [member_id for member_id in self._loaded if not self._users[member_id]]
            for member_id in idle[: max(0, len(self._loaded) - self._max_loaded)]:
                del self._loaded[member_id]
                self._unload(member_id)

    async def policy(self, member: Member) -> Policy:
        """Return the member's policy, loaded if necessary; call this inside ``in_use``.

        A cancelled caller does not cancel the load for others. A failed load raises for all its callers; the next call
        tries again.
        """
        if member.id in self._loaded:
            return self._loaded[member.id]
        task = self._loads.get(member.id)
        if task is None:
            task = self._loads[member.id] = asyncio.create_task(self._load_member(member))
        return await asyncio.shield(task)

    async def _load_member(self, member: Member) -> Policy:
        try:
            policy = self._loaded[member.id] = await self._load(member)
        finally:
            del self._loads[member.id]
        return policy
