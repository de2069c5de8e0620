"""The learner's step on a GPU beside a plain one, for random models of Qwen2.5's shapes: speed, utilisation, memory.

Needs torch, transformers and what ``grpo_core`` needs, no more:
``python -m cluster.bench.learner.gpu --json gpu.json``.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import nn
from transformers import Qwen2Config

from cluster.bench.figure import Figure, MissingRequirementError
from cluster.bench.learner.batches import (
    TURNS_EACH,
    Episodes,
    LearnerSide,
    Step,
    plain_step,
    ragged_episodes,
    require_equal,
)
from cluster.bench.models import qwen2_config, random_model
from grpo_core.batching.microbatches import TrainingTurn, training_turns
from grpo_core.settings import LearnerSettings
from grpo_core.training.memory_estimate import ModelShape

Side = Literal["free", "masked", "plain"]
DECODINGS: dict[Side, str] = {"free": "free text", "masked": "legal-order mask"}
YARDSTICK = "plain transformers step, full logits"
EPISODES = 4  # of ten turns
CEILING_SIZES = (4096, 8192, 16384)  # of square products; the fastest counts


@dataclass(frozen=True, slots=True)
class Case:
    """A Qwen2.5 shape, and how it is trained."""

    name: str
    config: Qwen2Config
    gradient_checkpointing: bool
    tokens_per_microbatch: int
    prompt: tuple[int, int] = (500, 900)  # bounds of a turn's tokens
    completion: tuple[int, int] = (40, 160)

    @property
    def settings(self) -> LearnerSettings:
        """One optimizer step, in passes of that size."""
        return LearnerSettings(
            learning_rate=1e-6,
            lr_warmup_updates=0,
            minibatches=1,
            tokens_per_microbatch=self.tokens_per_microbatch,
            gradient_checkpointing=self.gradient_checkpointing,
        )

    def episodes(self, side: Side) -> Episodes:
        """Ragged turns over the shape's vocabulary; decoded freely except for side ``masked``."""
        return ragged_episodes(
            EPISODES, self.config.vocab_size, masked=side == "masked", prompt=self.prompt, completion=self.completion
        )


CASES = (
    Case("1.5B", qwen2_config(1536, 8960, 28, 12, 2, 151_936, tied=True), False, 8192),
    # Weights, gradients and both moments of 7.6 billion parameters take 61 GB; with recomputed blocks 80 GB suffice.
    Case("7B", qwen2_config(3584, 18_944, 28, 28, 4, 152_064, tied=False), True, 4096),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One optimizer step of one side."""

    loss: float  # of the first step
    seconds: float
    peak_gb: float | None  # of the device, weights and moments included; None if the device keeps no count


def run(rounds: int) -> list[Figure]:
    """Measure every case on the first GPU, ``rounds`` steps a side, one side after the other (two do not fit).

    All weights are trained, and they, their gradients and AdamW's moments are bfloat16, which suits a measurement but
    not learning. Both sides count every prompt and completion token, padding excluded.

    Raises MissingRequirementError without a CUDA GPU, RuntimeError if the two sides' losses differ.
    """
    if not torch.cuda.is_available():
        raise MissingRequirementError("no CUDA GPU")
    device = torch.device("cuda")
    ceiling = product_ceiling(device, CEILING_SIZES)
    return [figure for case in CASES for figure in figures(case, device, ceiling, rounds)]


def figures(case: Case, device: torch.device, ceiling: float, rounds: int) -> list[Figure]:
    """Measure rates, utilisation of ``ceiling`` (FLOP/s) and peak memory of one case; raises as ``run``."""
    measured = {side: measure(case, side, device, rounds) for side in (*DECODINGS, "plain")}
    plain = measured["plain"]
    require_equal("the loss", measured["free"].loss, plain.loss, abs_tol=0.02)
    episodes = case.episodes("free")
    turns, tokens = training_turns(episodes, 0), sum(episode.tokens for episode in episodes)
    needed = step_flops(case.config, turns, recomputed=False)
    passes = "blocks recomputed" if case.gradient_checkpointing else "activations kept"
    work = (
        f"{EPISODES * TURNS_EACH} turns, {tokens} tokens, {case.tokens_per_microbatch} padded ones a pass, "
        f"{passes}, bf16 AdamW on everything, {device_name(device)}, median of {rounds}"
    )
    out: list[Figure] = []
    for side, decoding in DECODINGS.items():
        ours, title = measured[side], f"{case.name} {decoding}"
        utilisation = 100 * needed / (ours.seconds * ceiling), 100 * needed / (plain.seconds * ceiling)
        note = f"of {ceiling / 1e12:.0f} TFLOP/s in large bf16 products; {work}"
        if case.gradient_checkpointing:
            executed = step_flops(case.config, turns, recomputed=True) / needed
            both = " and ".join(f"{each * executed:.1f}" for each in utilisation)
            note = f"{both} with recomputed work; {note}"
        rates = tokens / ours.seconds, tokens / plain.seconds
        out += [
            Figure(f"GPU step, {title}", "tokens/s", *rates, YARDSTICK, note=work),
            Figure(f"GPU model FLOP utilisation, {title}", "%", *utilisation, YARDSTICK, note=note),
        ]
        if ours.peak_gb is not None and plain.peak_gb is not None:
            out.append(Figure(f"GPU memory, {title}", "GB", ours.peak_gb, plain.peak_gb, YARDSTICK, True, work))
    return out


def product_ceiling(device: torch.device, sizes: Sequence[int], repeats: int = 20) -> float:
    """Measure the FLOP/s of square bfloat16 products of the fastest of these sizes."""
    best = 0.0
    for size in sizes:
        left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))

        def products(left: torch.Tensor = left, right: torch.Tensor = right) -> None:
            for _ in range(repeats):
                torch.mm(left, right)

        products()
        best = max(best, 2 * size**3 * repeats / _seconds(products, device))
    return best


def step_flops(config: Qwen2Config, turns: Sequence[TrainingTurn], *, recomputed: bool) -> float:
    """Count the floating-point operations that a step over these turns needs, however it is computed.

    Forward and backward: 6 a block parameter and token, 6 a parameter of the output layer and *sampled* token, and
    6 x layers x attention width x length^2 a turn for causal attention, half of the full square (after Chowdhery et
    al., arXiv 2204.02311, appendix B). ``recomputed`` makes the 6 of the blocks and of attention 8. Padding and
    prompts' logits are not counted; the last block is counted in full.
    """
    shape = ModelShape.of(config)
    lengths = np.array([len(turn.input_ids) for turn in turns], np.float64)
    sampled = sum(len(turn.position_S) for turn in turns)
    block_parameters = shape.hidden * (2 * shape.query + 2 * shape.key_value + 3 * shape.feed_forward)
    blocks = shape.layers * (block_parameters * lengths.sum() + shape.query * (lengths**2).sum())
    return float((8 if recomputed else 6) * blocks + 6 * shape.hidden * shape.vocab_size * sampled)


def measure(case: Case, side: Side, device: torch.device, rounds: int) -> Measured:
    """Measure one side of a case; all its memory is freed afterwards."""
    model = random_model(case.config, device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    step = make_step(model, case, side)
    loss = step()["loss"]  # warms up, and makes the optimizer's moments
    seconds = statistics.median(_seconds(step, device) for _ in range(rounds))
    peak = torch.cuda.max_memory_allocated(device) / 1e9 if device.type == "cuda" else None
    del model, step
    gc.collect()
    torch.cuda.empty_cache()
    return Measured(loss, seconds, peak)


def make_step(model: nn.Module, case: Case, side: Side) -> Step:
    """Make a step from episodes to new weights: the plain one, or the learner's."""
    if side == "plain":
        return plain_step(model, case.config.vocab_size, case.settings, case.episodes(side))
    return LearnerSide(model, case.settings).prepared(case.episodes(side))


def device_name(device: torch.device) -> str:
    """The hardware's name."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> None:
    """Print every figure, and write them as JSON; without a GPU print one line and succeed."""
    parser = argparse.ArgumentParser(prog="python -m cluster.bench.learner.gpu", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="timed steps a side; the median counts")
    parser.add_argument("--json", type=Path, default=Path("gpu.json"), help="where the figures go")
    chosen = parser.parse_args(arguments)
    try:
        found = run(chosen.rounds)
    except MissingRequirementError as error:
        print(f"{error}: skipped")
        return
    for figure in found:
        print(f"{figure.name}: {figure.ours:,.4g} {figure.unit}, {figure.yardstick_name} {figure.yardstick:,.4g}")
    document = {
        "torch": torch.__version__,
        "device": device_name(torch.device("cuda")),
        "figures": [figure.document("gpu") for figure in found],
    }
    chosen.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
