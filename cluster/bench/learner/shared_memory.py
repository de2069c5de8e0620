"""Memory of each process of a learner that one, two and four processes share, without Ray."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

from cluster.bench.figure import Figure
from cluster.runtime.actor_env import actor_variables, started_with

PROCESSES = (1, 2, 4)
LAYERS, HIDDEN, FEED_FORWARD = 12, 512, 1536
ANSWER_S = 600.0
KIB = 1 if sys.platform != "darwin" else 1 / 1024  # unit of the peak that the system tells


def run(rounds: int) -> list[Figure]:
    """Measure each process's peak of resident memory over an update and a gathering of all weights.

    It is the peak less what the process had before it made the model; ``rounds`` is not used, for the peak varies by
    less than the differences. Raises RuntimeError if a process does not answer within ten minutes.
    """
    del rounds
    peaks = {count: _peaks(count) for count in PROCESSES}
    alone = peaks[1][0]
    return [
        Figure(
            f"learner memory, {count} processes",
            "MiB",
            max(found),
            alone,
            "one process",
            lower_is_better=True,
            note=f"largest of {', '.join(f'{peak:.0f}' for peak in found)}; {LAYERS} x {HIDDEN} policy, AdamW, fp32",
        )
        for count, found in peaks.items()
        if count > 1
    ]


def _peaks(count: int) -> list[float]:
    """Peak in MiB of each of ``count`` processes, by rank."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, started_with(actor_variables(1)):
        meeting = str(Path(folder) / "meeting")
        pairs = [context.Pipe(duplex=False) for _ in range(count)]
        started = [
            context.Process(target=_rank, args=(rank, count, meeting, pairs[rank][1]), daemon=True)
            for rank in range(count)
        ]
        for process in started:
            process.start()
        try:
            found = []
            for rank, (receiver, _) in enumerate(pairs):
                if not receiver.poll(ANSWER_S):
                    raise RuntimeError(f"process {rank} of {count} did not answer within {ANSWER_S:g} s")
                found.append(float(receiver.recv()))
            return found
        finally:
            for process in started:
                process.kill()
                process.join(ANSWER_S)


def _rank(rank: int, count: int, meeting: str, sender: Connection) -> None:
    import torch

    from cluster.bench.learner.batches import EPISODES, GROUPING, VOCABULARY, ragged_episodes
    from grpo_core.learner import Learner
    from grpo_core.models.fsdp import process_group
    from grpo_core.models.pretrained import empty_model, make_small_model, plain_items, weights_payload
    from grpo_core.models.tensor_stream import gathered_payload
    from grpo_core.settings import LearnerSettings, PolicySettings
    from grpo_core.types import Batch

    torch.set_num_threads(1)
    batch = Batch(ragged_episodes(EPISODES // 5), 0)
    policy = PolicySettings(layers=LAYERS, hidden_size=HIDDEN, head_dim=64, intermediate_size=FEED_FORWARD)
    with process_group(rank, count, f"file://{meeting}", timeout_s=ANSWER_S) as sharding:
        before = _resident()
        model = make_small_model(policy, VOCABULARY, eos_id=1, bos_id=2, pad_id=0, seed=1) if rank == 0 else None
        if rank or model is None:
            config = make_small_model(
                policy.model_copy(update={"layers": 1}), VOCABULARY, eos_id=1, bos_id=2, pad_id=0, seed=1
            ).config
            config.num_hidden_layers = LAYERS
            config.layer_types = None if config.layer_types is None else config.layer_types * LAYERS
            before = _resident()
            model = empty_model(config, torch.float32)
        learner = Learner(model, LearnerSettings(tokens_per_microbatch=512), GROUPING, 1, sharding=sharding)
        learner.step(batch)
        if count == 1:
            weights_payload(learner.model)
        elif rank == 0:
            gathered_payload(learner.model)
        else:
            for _ in plain_items(learner.model):
                pass
        sender.send((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB / 1024) - before)
        sender.close()


def _resident() -> float:
    import psutil

    return float(psutil.Process().memory_info().rss) / (1 << 20)
