"""A rollout worker and a learner that only use a replay buffer: processes for tests to kill.

``python -m tests.system.support.replay_processes produce|consume URL RUN BLOCKS STATE``
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

from services.replay.buffer import BlocksMissingError, Receipt
from services.replay.redis_store.buffer import RedisBuffer
from services.replay.synthetic_episodes import synthetic_episode

BLOCK_SIZE = 3
ROLES = ("FRANCE", "ITALY")
TAKES_PER_CHECKPOINT = 3
MAY_FINISH = "may-finish"  # a file next to the checkpoint
WAIT_LIMIT_S = 900


def episode_ids(block: int) -> list[str]:
    return [f"b{block}/{member}" for member in range(BLOCK_SIZE)]


def role_of(block: int) -> str:
    return ROLES[block % len(ROLES)]


def produce(buffer: RedisBuffer, blocks: int, may_finish: Path) -> None:
    """Play all blocks in a random order, without stored episodes; another worker plays the same blocks.

    The last block waits for the test's permission, so that the work does not end before the test's faults.
    """
    order = list(range(blocks - 1))
    random.shuffle(order)
    for block in [*order, blocks - 1]:
        give_up_s = time.monotonic() + WAIT_LIMIT_S
        while block == blocks - 1 and not may_finish.exists():
            assert time.monotonic() < give_up_s, f"{may_finish} did not appear within {WAIT_LIMIT_S} s"
            time.sleep(0.05)
        stored = buffer.stored_ids(episode_ids(block))
        for member, name in enumerate(episode_ids(block)):
            if name not in stored:
                time.sleep(0.02)
                buffer.append([synthetic_episode(f"b{block}", member, role=role_of(block), block_size=BLOCK_SIZE)])


def consume(buffer: RedisBuffer, blocks: int, checkpoint: Path) -> None:
    """Use every block once: like a learner's checkpoint, the used ids are durable before the acknowledgement."""
    state = json.loads(checkpoint.read_text()) if checkpoint.exists() else {"used": [], "receipts": []}
    buffer.acknowledge([Receipt(role, entry_id) for role, entry_id in state["receipts"]])
    buffer.redeliver()
    used, taken, receipts = list(state["used"]), 0, []
    while len(used) < blocks * BLOCK_SIZE:
        try:
            delivery = buffer.take({ROLES[taken % len(ROLES)]: 1}, 0.3)
        except BlocksMissingError:
            taken += 1
        else:
            used += [episode.episode_id for episode in delivery.episodes]
            receipts += delivery.receipts
            taken += 1
        if receipts and (taken % TAKES_PER_CHECKPOINT == 0 or len(used) == blocks * BLOCK_SIZE):
            save(checkpoint, {"used": used, "receipts": [[r.role, r.entry_id] for r in receipts]})
            time.sleep(0.01)  # makes a kill between the two steps likely
            buffer.acknowledge(receipts)
            receipts = []


def save(path: Path, state: dict[str, list[object]]) -> None:
    temporary = path.with_suffix(".new")
    with temporary.open("w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


def main() -> None:
    kind, url, run, blocks, state = sys.argv[1:]
    buffer = RedisBuffer(url, run, group_timeout_s=3600, connect_timeout_s=2)
    print("begins", flush=True)
    if kind == "produce":
        produce(buffer, int(blocks), Path(state).with_name(MAY_FINISH))
    else:
        consume(buffer, int(blocks), Path(state))
    buffer.close()


if __name__ == "__main__":
    main()
