from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from services.replay.redis_store.buffer import RedisBuffer
from services.replay.server.embedded import EmbeddedServer
from services.replay.synthetic_episodes import synthetic_episode
from tests.system.support.replay_processes import BLOCK_SIZE, MAY_FINISH, episode_ids

pytestmark = pytest.mark.system

BLOCKS = 200
VICTIMS = ["learner"] * 5 + ["one", "two"] * 2 + ["server"] * 2
TIME_LIMIT_S = 900


class Workers:
    """Two producers of the same blocks and one consumer; killed ones are started again."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "checkpoint.json"
        self.running: dict[str, subprocess.Popen[str]] = {}

    def start_missing(self, url: str) -> None:
        for name, kind in (("one", "produce"), ("two", "produce"), ("learner", "consume")):
            process = self.running.get(name)
            if process is None or process.poll() not in (None, 0):
                command = [
                    sys.executable,
                    "-m",
                    "tests.system.support.replay_processes",
                    kind,
                    url,
                    "crash",
                    str(BLOCKS),
                ]
                process = subprocess.Popen([*command, str(self.state)], stdout=subprocess.PIPE, text=True)
                self.running[name] = process
                assert process.stdout is not None
                assert process.stdout.readline() == "begins\n"  # it is connected, so a kill finds it at work
                process.stdout.close()

    def kill(self, name: str) -> None:
        process = self.running[name]
        process.kill()
        process.wait(300)

    def kill_all(self) -> None:
        for name in self.running:
            self.kill(name)

    def finished(self) -> bool:
        return all(process.poll() == 0 for process in self.running.values())


def test_every_episode_is_used_exactly_once_even_if_processes_are_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)  # shown when the test fails
    rng = random.Random(seed)
    workers = Workers(tmp_path)
    server = EmbeddedServer.start(tmp_path / "redis")
    try:
        for victim in rng.sample(VICTIMS, len(VICTIMS)):
            workers.start_missing(server.url)
            time.sleep(rng.uniform(0, 0.4))
            if victim == "server":
                os.kill(server.pid, signal.SIGKILL)
                workers.kill_all()  # they could not find the new one, whose address is another
                server.close()
                server = EmbeddedServer.start(tmp_path / "redis")
            else:
                workers.kill(victim)
        (tmp_path / MAY_FINISH).touch()
        deadline_s = time.monotonic() + TIME_LIMIT_S
        while not workers.finished():
            workers.start_missing(server.url)
            time.sleep(0.1)
            assert time.monotonic() < deadline_s, f"not finished within {TIME_LIMIT_S} s"
        used = Counter(json.loads(workers.state.read_text())["used"])
        assert used == Counter(name for block in range(BLOCKS) for name in episode_ids(block))
        buffer = RedisBuffer(server.url, "crash", 3600, 5)
        stats = buffer.stats()
        buffer.close()
        assert (stats["acknowledged"], stats["waiting"], stats["delivered"]) == (BLOCKS * BLOCK_SIZE, 0, 0)
        assert stats["poison"] == 0
    finally:
        workers.kill_all()
        server.close()


def test_the_append_only_file_keeps_entries_and_deliveries_after_a_kill(tmp_path: Path) -> None:
    server = EmbeddedServer.start(tmp_path)
    try:
        first = RedisBuffer(server.url, "run", 3600, 1)
        first.append([synthetic_episode(f"b{n}", m, block_size=2) for n in range(5) for m in range(2)])
        first.acknowledge(first.take({"FRANCE": 1}, 0).receipts)
        held = first.take({"FRANCE": 2}, 0)
        os.kill(server.pid, signal.SIGKILL)
        first.close()
        server.close()
        server = EmbeddedServer.start(tmp_path)
        second = RedisBuffer(server.url, "run", 3600, 5)
        assert second.stats()["acknowledged"] == 2
        again = second.take({"FRANCE": 4}, 0)
        assert again.receipts[:4] == held.receipts
        assert [e.episode_id for e in again.episodes] == [f"b{n}/{m}" for n in range(1, 5) for m in range(2)]
        assert second.append([synthetic_episode("b0", 0, block_size=2)]) == 0
        second.close()
    finally:
        server.close()
