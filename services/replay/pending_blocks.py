"""Blocks that wait for delivery: the logic that both buffers share, without clocks, threads or stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from grpo_core.types import Episode
from services.replay.buffer import BlocksMissingError, Delivery, Receipt, block_of


@dataclass(slots=True)
class _Block:
    """The stored, undelivered episodes of one block, in order of arrival."""

    arrived_s: float  # when its first episode arrived, by the store's clock
    size: int  # distinct episodes that complete it
    episodes: dict[str, tuple[Receipt, Episode]] = field(default_factory=dict)  # by entry id


class PendingBlocks:
    """Episodes that wait for delivery, by role and block, oldest first.

    A block has one role (a game with several learner seats gives a block per seat). Episodes that arrive after their
    block was delivered incomplete make a new block, which the group timeout releases.
    """

    def __init__(self, group_timeout_s: float) -> None:
        self._group_timeout_s = group_timeout_s
        self._blocks: dict[str, dict[str, _Block]] = {}  # role -> block id -> block; in order of first arrival
        self._block_of: dict[Receipt, str] = {}
        self._unreadable: dict[tuple[str, str], set[str]] = {}  # (role, block id) -> episode ids

    def __len__(self) -> int:
        return len(self._block_of)

    def __contains__(self, receipt: Receipt) -> bool:
        return receipt in self._block_of

    def add(self, receipt: Receipt, episode: Episode, arrived_s: float) -> None:
        """Add the next stored episode, in order of arrival; a known receipt is ignored."""
        if receipt in self._block_of:
            return
        of_role = self._blocks.setdefault(receipt.role, {})
        block = of_role.setdefault(episode.block_id, _Block(arrived_s, episode.block_size))
        block.episodes[receipt.entry_id] = (receipt, episode)
        self._block_of[receipt] = episode.block_id

    def add_unreadable(self, role: str, episode_id: str) -> None:
        """Note an episode that was set aside: its block is complete without it."""
        self._unreadable.setdefault((role, block_of(episode_id)), set()).add(episode_id)

    def discard(self, receipt: Receipt) -> None:
        """Remove an episode that was acknowledged without delivery; an unknown receipt is ignored."""
        block_id = self._block_of.pop(receipt, None)
        if block_id is None:
            return
        of_role = self._blocks[receipt.role]
        del of_role[block_id].episodes[receipt.entry_id]
        if not of_role[block_id].episodes:
            del of_role[block_id]

    def clear(self) -> None:
        """Remove all episodes."""
        self._blocks.clear()
        self._block_of.clear()

    def missing(self, blocks: Mapping[str, int], now_s: float) -> dict[str, int]:
        """Count the requested blocks that are not ready, by role; empty when ``take`` would succeed."""
        lacking = {role: wanted - len(self._ready(role, now_s)) for role, wanted in blocks.items()}
        return {role: count for role, count in lacking.items() if count > 0}

    def missing_error(self, missing: Mapping[str, int], timeout_s: float) -> BlocksMissingError:
        """Make the error of a learner that waited ``timeout_s`` for these blocks."""
        lines = []
        for role, count in missing.items():
            held = self._blocks.get(role, {}).values()
            episodes = sum(len(block.episodes) for block in held)
            wait = f"{episodes} episode(s) of {len(held)} unfinished or surplus block(s) wait"
            lines.append(f"{role} lacks {count} block(s) ({wait if episodes else 'nothing waits'})")
        return BlocksMissingError(
            f"waited {timeout_s:g} s for complete blocks: {'; '.join(lines)}. Incomplete ones are delivered "
            f"after {self._group_timeout_s:g} s. Are the rollout workers alive, and do they play these countries?",
            missing,
        )

    def take(self, blocks: Mapping[str, int], now_s: float) -> Delivery:
        """Remove and return the oldest ready blocks, as in ``blocks``. Raises ``ValueError`` if some are missing."""
        if missing := self.missing(blocks, now_s):
            raise ValueError(f"not ready: {missing}")
        taken: list[tuple[Receipt, Episode]] = []
        for role, wanted in blocks.items():
            for block_id in self._ready(role, now_s)[:wanted]:
                taken.extend(self._blocks[role].pop(block_id).episodes.values())
        for receipt, _ in taken:
            del self._block_of[receipt]
        return Delivery(tuple(episode for _, episode in taken), tuple(receipt for receipt, _ in taken))

    def _ready(self, role: str, now_s: float) -> list[str]:
        """Return deliverable blocks, the oldest first; complete blocks before those that the timeout released.

        If an incomplete block went before a complete one, its late episodes would become one block more than the
        learner's schedule has, and every later block would be used too late.
        """
        held = self._blocks.get(role, {})
        complete = {name: len(self._arrived(role, name)) >= block.size for name, block in held.items()}
        timeout_s = self._group_timeout_s
        ready = [name for name, block in held.items() if complete[name] or now_s - block.arrived_s >= timeout_s]
        return sorted(ready, key=lambda name: not complete[name])

    def _arrived(self, role: str, block_id: str) -> set[str]:
        """Return the ids of a block's episodes, readable or not; an id counts once, also if others wrote it again."""
        ids = {episode.episode_id for _, episode in self._blocks[role][block_id].episodes.values()}
        return ids | self._unreadable.get((role, block_id), set())
