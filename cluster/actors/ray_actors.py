"""The actor classes for Ray and the driver; each loads its worker in its own process.

So the driver does not import torch and transformers, which takes seven seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.actors.messages import BlockReport, Shortage, UpdateReport
from cluster.broadcast.delivery import Delivery
from cluster.configs.schema import config_from_json
from cluster.runtime.light_transformers import leave_out_optional_packages
from cluster.runtime.replay.clients import population_mirror, replay_buffer
from opponents.matchmaking.lineup import LineupBlock
from opponents.population.member import Member
from services.environments.evaluation import EvaluationGame, EvaluationResult

if TYPE_CHECKING:
    from services.weights.payload import Payload


class LearnerActor:
    """Ray actor of a ``LearnerWorker``, whose methods it forwards."""

    def __init__(
        self,
        config_json: str,
        run_dir: str,
        redis_urls: Sequence[str],
        run_id: str,
        resume: bool,
        peers: Sequence[Any] = (),
    ) -> None:
        leave_out_optional_packages()
        from cluster.actors.learner import LearnerWorker

        config = config_from_json(config_json)
        buffer = replay_buffer(config.redis, redis_urls, config.world.roles, run_id, patient=resume)
        self._worker = LearnerWorker(config, run_dir, buffer, resume, peers)

    def heartbeat(self) -> None:
        """Return at once; it runs in a separate thread, and so answers during updates."""

    def hurry(self) -> None:  # noqa: D102  (in the same thread as heartbeats)
        self._worker.hurry()

    def version(self) -> int:  # noqa: D102
        return self._worker.version()

    def publish(self) -> Payload:  # noqa: D102
        return self._worker.publish()

    def collect(self, blocks: Mapping[str, int], timeout_s: float) -> Shortage:  # noqa: D102
        return self._worker.collect(blocks, timeout_s)

    def update(  # noqa: D102
        self, blocks: Mapping[str, int], timeout_s: float, topped_up: Mapping[str, int]
    ) -> tuple[UpdateReport, Payload]:
        return self._worker.update(blocks, timeout_s, topped_up)

    def last_report(self) -> UpdateReport | None:  # noqa: D102
        return self._worker.last_report()

    def checkpoint(self) -> str:  # noqa: D102
        return self._worker.checkpoint()

    def snapshot(self, path: str) -> int:  # noqa: D102
        return self._worker.snapshot(path)


class RolloutActor:
    """Ray actor of a ``RolloutWorker``, whose methods it forwards."""

    def __init__(
        self,
        config_json: str,
        policy_folder: str,
        population_file: str,
        redis_urls: Sequence[str],
        run_id: str,
        patient: bool,
    ) -> None:
        leave_out_optional_packages()
        from cluster.actors.rollout import RolloutWorker, wait_for_checkpoint

        config = config_from_json(config_json)
        wait_for_checkpoint(Path(policy_folder), config.rollout.start_timeout_s)
        buffer = replay_buffer(config.redis, redis_urls, config.world.roles, run_id, patient=patient)
        mirror = population_mirror(config.redis, config.opponents.mirror_mib, redis_urls, run_id, patient=True)
        self._worker = RolloutWorker(config, policy_folder, population_file, buffer, mirror)

    async def ready(self) -> Mapping[str, float]:  # noqa: D102
        return await self._worker.ready()

    async def swap(self, weights: Payload | Delivery) -> float:
        """Take new weights, which Ray has fetched, or which its node receives in a broadcast."""
        return await self._worker.swap(await weights.payload() if isinstance(weights, Delivery) else weights)

    async def sleep(self) -> None:  # noqa: D102
        await self._worker.sleep()

    async def wake(self) -> None:  # noqa: D102
        await self._worker.wake()

    async def play_block(self, block: LineupBlock, members: Sequence[Member], version: int) -> BlockReport:  # noqa: D102
        return await self._worker.play_block(block, members, version)

    async def play_evaluation(self, games: Sequence[EvaluationGame], version: int) -> list[EvaluationResult]:  # noqa: D102
        return await self._worker.play_evaluation(games, version)

    async def stats(self) -> Mapping[str, float]:  # noqa: D102
        return await self._worker.stats()
