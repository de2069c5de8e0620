"""Memory of each process of a learner that one, two and four processes share, without Ray."""

from __future__ import annotations

import gc
import multiprocessing
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

from cluster.bench.figure import Figure, MissingRequirementError
from cluster.runtime.actor_env import sharing_variables, started_with
from grpo_core.models.fsdp import Sharding

PROCESSES = (1, 2, 4)
LAYERS, HIDDEN, FEED_FORWARD = 12, 512, 1536
ANSWER_S = 600.0
TOKENS = 256  # of a micro-batch, whose activations are not shared
STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")  # Linux


def run(rounds: int) -> list[Figure]:
    """Measure each process's peak of resident memory over an update, a gathering of all weights and a checkpoint.

    It is the peak less what the process had before it made the model, with its libraries loaded. ``rounds`` is not
    used, because the peak varies by less than the differences. Raises RuntimeError if a process does not answer within
    ten minutes, MissingRequirementError where the system does not tell peaks.
    """
    del rounds
    if not CLEAR_REFS.exists():
        raise MissingRequirementError("the peak of a process's memory is read from Linux's /proc")
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
    with tempfile.TemporaryDirectory() as folder, started_with(sharing_variables(1)):
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

    from grpo_core.models.fsdp import process_group

    torch.set_num_threads(1)
    with process_group(rank, count, f"file://{meeting}", timeout_s=ANSWER_S) as sharding:
        state = Path(meeting).with_name("state.safetensors") if rank == 0 else None
        _update(sharding, 1, 64, 64, state)  # loads libraries, which are no part of the figure
        gc.collect()
        CLEAR_REFS.write_text("5")  # the peak counts from here on
        before = _status("VmRSS")
        _update(sharding, LAYERS, HIDDEN, FEED_FORWARD, state)
        sender.send(_status("VmHWM") - before)
        sender.close()


def _update(sharding: Sharding, layers: int, hidden: int, feed_forward: int, state: Path | None) -> None:
    """Make a learner, update it once, gather its weights as for engines, and write its optimiser's state."""
    from cluster.bench.learner.batches import EPISODES, GROUPING, VOCABULARY, ragged_episodes
    from grpo_core.learner import Learner
    from grpo_core.models.pretrained import empty_model, make_small_model, plain_items, weights_payload
    from grpo_core.models.tensor_stream import gathered_payload
    from grpo_core.settings import LearnerSettings, PolicySettings
    from grpo_core.types import Batch

    policy = PolicySettings(layers=layers, hidden_size=hidden, head_dim=64, intermediate_size=feed_forward)
    sizes = {"eos_id": 1, "bos_id": 2, "pad_id": 0, "seed": 1}
    if sharding.rank == 0:
        model = make_small_model(policy, VOCABULARY, **sizes)
    else:
        config = make_small_model(policy.model_copy(update={"layers": 1}), VOCABULARY, **sizes).config
        config.num_hidden_layers, config.layer_types = layers, config.layer_types * layers
        model = empty_model(config, config.dtype)
    settings = LearnerSettings(tokens_per_microbatch=TOKENS, minibatches=1)
    learner = Learner(model, settings, GROUPING, 1, sharding=sharding)
    learner.step(Batch(ragged_episodes(EPISODES // 5), 0))
    if sharding.ranks == 1:
        weights_payload(learner.model)
    elif sharding.rank == 0:
        gathered_payload(learner.model)
    else:
        for _ in plain_items(learner.model):
            pass
    learner.save_state(state)


def _status(name: str) -> float:
    """Return a figure of this process's memory, in MiB."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return float(line.split()[1]) / 1024
