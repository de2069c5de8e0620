"""Which blocks may be delivered now: the logic both buffers share, without clocks, threads or stores."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from grpo_core.types import Episode
from services.replay.buffer import Delivery, Receipt


@dataclass(slots=True)
class _Block:
    """The stored, undelivered episodes of one block, in order of arrival."""

    arrived_s: float  # of its first episode, on the store's clock
    size: int  # distinct episodes that complete it
    episodes: dict[str, tuple[Receipt, Episode]] = field(default_factory=dict)  # by entry id

    @property
    def complete(self) -> bool:
        return len(self.episodes) >= self.size

    def ready(self, now_s: float, timeout_s: float) -> bool:
        return self.complete or now_s - self.arrived_s >= timeout_s


class PendingBlocks:
    """Episodes that wait for delivery, by role and block, oldest first.

    A block is of one role (a game with several learner seats makes one block a seat). Stragglers of a block
    that was delivered incomplete make a block of their own, which the group timeout lets go.
    """

    def __init__(self, group_timeout_s: float) -> None:
        self._group_timeout_s = group_timeout_s
        self._blocks: dict[str, dict[str, _Block]] = {}  # role -> block id -> block; in order of first arrival
        self._block_of: dict[Receipt, str] = {}

    def __len__(self) -> int:
        return len(self._block_of)

    def __contains__(self, receipt: Receipt) -> bool:
        return receipt in self._block_of

    def add(self, receipt: Receipt, episode: Episode, arrived_s: float) -> None:
        """One more stored episode, in the order in which they arrived; a receipt already here is ignored."""
        if receipt in self._block_of:
            return
        of_role = self._blocks.setdefault(receipt.role, {})
        block = of_role.setdefault(episode.block_id, _Block(arrived_s, episode.block_size))
        block.episodes[receipt.entry_id] = (receipt, episode)
        self._block_of[receipt] = episode.block_id

    def discard(self, receipt: Receipt) -> None:
        """Forget an episode that was acknowledged without being delivered from here."""
        block_id = self._block_of.pop(receipt, None)
        if block_id is None:
            return
        of_role = self._blocks[receipt.role]
        del of_role[block_id].episodes[receipt.entry_id]
        if not of_role[block_id].episodes:
            del of_role[block_id]

    def clear(self) -> None:
        """Forget everything."""
        self._blocks.clear()
        self._block_of.clear()

    def missing(self, blocks: Mapping[str, int], now_s: float) -> dict[str, int]:
        """How many of the blocks asked for are not ready, by role; empty when ``take`` would succeed."""
        lacking = {role: wanted - len(self._ready(role, now_s)) for role, wanted in blocks.items()}
        return {role: count for role, count in lacking.items() if count > 0}

    def take(self, blocks: Mapping[str, int], now_s: float) -> Delivery:
        """Removes and returns the oldest ``blocks[role]`` ready blocks, roles in the order asked.

        Raises:
            ValueError: some are not ready (ask ``missing`` first).
        """
        if self.missing(blocks, now_s):
            raise ValueError(f"not ready: {self.missing(blocks, now_s)}")
        taken: list[tuple[Receipt, Episode]] = []
        for role, wanted in blocks.items():
            for block_id in self._ready(role, now_s)[:wanted]:
                taken.extend(self._blocks[role].pop(block_id).episodes.values())
        for receipt, _ in taken:
            del self._block_of[receipt]
        return Delivery(
            episodes=tuple(episode for _, episode in taken), receipts=tuple(receipt for receipt, _ in taken)
        )

    def waiting(self, roles: Collection[str]) -> dict[str, tuple[int, int]]:
        """(Blocks, episodes) that wait, by role; for the message when blocks are missing."""
        return {
            role: (len(held), sum(len(block.episodes) for block in held.values()))
            for role in roles
            for held in [self._blocks.get(role, {})]
        }

    def _ready(self, role: str, now_s: float) -> list[str]:
        """Blocks that may go out, the oldest first; whole ones before what the timeout released.

        A fragment that went before a whole block would leave its late rest behind as one block more than the learner's
        schedule knows of, and everything after it would be used too late.
        """
        held = self._blocks.get(role, {})
        ready = [block_id for block_id, block in held.items() if block.ready(now_s, self._group_timeout_s)]
        return sorted(ready, key=lambda block_id: not held[block_id].complete)


def missing_message(
    missing: Mapping[str, int],
    waiting: Mapping[str, tuple[int, int]],
    timeout_s: float,
    group_timeout_s: float,
) -> str:
    """What a learner waited for in vain, and what there was instead."""
    lines = []
    for role, count in missing.items():
        blocks, episodes = waiting.get(role, (0, 0))
        held = f"{episodes} episode(s) of {blocks} unfinished or surplus block(s) wait" if episodes else "nothing waits"
        lines.append(f"{role} lacks {count} block(s) ({held})")
    return (
        f"waited {timeout_s:g} s for complete blocks: {'; '.join(lines)}. Incomplete ones are delivered "
        f"after {group_timeout_s:g} s. Are the rollout workers alive, and do they play these countries?"
    )
