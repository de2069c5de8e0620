"""The learner's step on a GPU beside a plain one, for random models of Qwen2.5's shapes: speed, utilisation, memory.

Needs torch, transformers and what ``grpo_core`` needs, no more:
``python -m cluster.bench.learner.gpu --json gpu.json``.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, Qwen2Config

from cluster.bench.figure import Figure, MissingRequirementError
from cluster.bench.learner.head import spread
from cluster.bench.learner.step import GROUPING, Lengths, decoded_freely, plain_advantages, ragged_episodes
from grpo_core.batching.microbatches import TrainingTurn, split_by_budget, training_turns
from grpo_core.learner import Learner
from grpo_core.settings import LearnerSettings
from grpo_core.types import Batch, Episode

Side = Literal["free", "masked", "plain"]
DECODINGS: dict[Side, str] = {"free": "free text", "masked": "legal-order mask"}
YARDSTICK = "plain transformers step, full logits"
CEILING_SIZES = (4096, 8192, 16384)  # of square products; the fastest counts


@dataclass(frozen=True, slots=True)
class Case:
    """A Qwen2 shape, and how it is trained."""

    name: str
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    key_value_heads: int
    vocabulary: int
    tied: bool
    gradient_checkpointing: bool
    tokens_per_microbatch: int
    lengths: Lengths
    episodes: int  # of ten turns

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


_LENGTHS = Lengths(prompt=(500, 900), completion=(40, 160))
CASES = (
    Case("1.5B", 1536, 8960, 28, 12, 2, 151_936, True, False, 8192, _LENGTHS, 4),
    # Weights, gradients and both moments of 7.6 billion parameters take 61 GB; recomputed blocks leave room on 80.
    Case("7B", 3584, 18_944, 28, 28, 4, 152_064, False, True, 4096, _LENGTHS, 4),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What one side needed for one optimizer step."""

    loss: float  # of the first step
    seconds: float
    peak_gb: float | None  # of the device, weights and moments included; None where the device keeps no count


def run(rounds: int) -> list[Figure]:
    """Every case on the first GPU; ``rounds`` timed steps a side, one side after the other (two do not fit).

    Weights, gradients and AdamW's moments are bfloat16 and all are trained: right for speed, not for learning. Both
    sides count every prompt and completion token, padding excluded.

    Raises:
        MissingRequirementError: there is no CUDA GPU.
        RuntimeError: the two sides' losses differ.
    """
    if not torch.cuda.is_available():
        raise MissingRequirementError("no CUDA GPU")
    device = torch.device("cuda")
    ceiling = product_ceiling(device, CEILING_SIZES)
    return [figure for case in CASES for figure in figures(case, device, ceiling, rounds)]


def figures(case: Case, device: torch.device, ceiling: float, rounds: int) -> list[Figure]:
    """Rates, utilisation of ``ceiling`` (FLOP/s) and peak memory of one case.

    Raises:
        RuntimeError: the two sides' losses differ.
    """
    measured = {side: measure(case, side, device, rounds) for side in (*DECODINGS, "plain")}
    if not math.isclose(measured["free"].loss, measured["plain"].loss, abs_tol=0.02):
        raise RuntimeError(
            f"the learner's loss is {measured['free'].loss}, the plain step's {measured['plain'].loss}; their rates "
            "cannot be compared"
        )
    episodes = case_episodes(case, "free")
    turns = training_turns(episodes, 0)
    tokens = sum(episode.tokens for episode in episodes)
    needed = step_flops(case, turns, recomputed=False)
    passes = "blocks recomputed" if case.gradient_checkpointing else "activations kept"
    work = (
        f"{len(turns)} turns, {tokens} tokens, {case.tokens_per_microbatch} padded ones a pass, {passes}, bf16 AdamW "
        f"on everything, {device_name(device)}, median of {rounds}"
    )
    out: list[Figure] = []
    plain = measured["plain"]
    for side, decoding in DECODINGS.items():
        ours, title = measured[side], f"{case.name} {decoding}"
        shares = [100 * needed / (each.seconds * ceiling) for each in (ours, plain)]
        note = f"of {ceiling / 1e12:.0f} TFLOP/s in large bf16 products; {work}"
        if case.gradient_checkpointing:
            executed = step_flops(case, turns, recomputed=True) / needed
            note = f"{shares[0] * executed:.1f} and {shares[1] * executed:.1f} with recomputed work; {note}"
        out += [
            Figure(
                f"GPU step, {title}", "tokens/s", tokens / ours.seconds, tokens / plain.seconds, YARDSTICK, note=work
            ),
            Figure(f"GPU model FLOP utilisation, {title}", "%", shares[0], shares[1], YARDSTICK, note=note),
        ]
        if ours.peak_gb is not None and plain.peak_gb is not None:
            out.append(Figure(f"GPU memory, {title}", "GB", ours.peak_gb, plain.peak_gb, YARDSTICK, True, work))
    return out


def product_ceiling(device: torch.device, sizes: Sequence[int], repeats: int = 20) -> float:
    """FLOP/s of square bfloat16 products of the fastest of these sizes."""
    best = 0.0
    for size in sizes:
        left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))

        def products(left: Tensor = left, right: Tensor = right) -> None:
            for _ in range(repeats):
                torch.mm(left, right)

        products()
        best = max(best, 2 * size**3 * repeats / _seconds(products, device))
    return best


def step_flops(case: Case, turns: Sequence[TrainingTurn], *, recomputed: bool) -> float:
    """Floating-point operations that a step over these turns needs, whoever takes it.

    Forward and backward: 6 a block parameter and token, 6 a parameter of the output layer and *sampled* token, and
    6 x layers x attention width x length^2 a turn for causal attention, half of the full square (after Chowdhery et
    al., arXiv 2204.02311, appendix B). ``recomputed`` makes the 6 of the blocks and of attention 8. Skipped work
    (padding, logits of prompts, the last block where nothing was sampled) makes a step faster, not busier: padding and
    prompts' logits are not counted; the last block is, in full.
    """
    head_size = case.hidden_size // case.heads
    projections = case.hidden_size * head_size * (2 * case.heads + 2 * case.key_value_heads)
    block = projections + 3 * case.hidden_size * case.intermediate_size
    lengths = np.array([len(turn.input_ids) for turn in turns], np.float64)
    sampled = sum(len(turn.position_S) for turn in turns)
    blocks = case.layers * (block * lengths.sum() + case.hidden_size * (lengths**2).sum())
    return float((8 if recomputed else 6) * blocks + 6 * case.hidden_size * case.vocabulary * sampled)


def measure(case: Case, side: Side, device: torch.device, rounds: int) -> Measured:
    """One side of a case; everything it held is freed afterwards."""
    model = random_model(case, device)
    episodes = case_episodes(case, side)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    step = plain_step(model, case, episodes) if side == "plain" else learner_step(model, case, episodes)
    loss = step()  # warms up, and makes the optimizer's moments
    seconds = statistics.median(_seconds(step, device) for _ in range(rounds))
    peak = torch.cuda.max_memory_allocated(device) / 1e9 if device.type == "cuda" else None
    del model, step
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return Measured(loss, seconds, peak)


def random_model(case: Case, device: torch.device) -> nn.Module:
    """A Qwen2 of the case's shape, random weights, bfloat16, made on the device; the same for every side."""
    config = Qwen2Config(
        vocab_size=case.vocabulary,
        hidden_size=case.hidden_size,
        intermediate_size=case.intermediate_size,
        num_hidden_layers=case.layers,
        num_attention_heads=case.heads,
        num_key_value_heads=case.key_value_heads,
        max_position_embeddings=4096,
        tie_word_embeddings=case.tied,
        use_cache=False,
    )
    torch.manual_seed(5)
    with device:
        model: nn.Module = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
    return model.eval()


def case_episodes(case: Case, side: Side) -> tuple[Episode, ...]:
    """Ragged turns over the case's vocabulary; decoded freely but for side ``masked``."""
    episodes = spread(ragged_episodes(11, case.lengths)[: case.episodes], case.vocabulary)
    return episodes if side == "masked" else decoded_freely(episodes, case.vocabulary)


def learner_step(model: nn.Module, case: Case, episodes: tuple[Episode, ...]) -> Callable[[], float]:
    """A step of the learner, from episodes to new weights; gives the loss."""
    learner = Learner(model, case.settings, GROUPING, seed=3)
    return lambda: float(learner.step(Batch(episodes, learner.version)).metrics["loss"])


def plain_step(model: nn.Module, case: Case, episodes: tuple[Episode, ...]) -> Callable[[], float]:
    """The same step written the plain way: padded passes of the same size, logits at every position."""
    settings, turns = case.settings, training_turns(episodes, 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.0, fused=True)
    if case.gradient_checkpointing:
        inner: Any = model.train()  # where transformers' switch works; these models have no dropout
        inner.gradient_checkpointing_enable({"use_reentrant": False})
    advantages = plain_advantages(episodes)
    passes = [
        _padded([turns[index] for index in chunk], advantages, len(turns), next(model.parameters()).device)
        for chunk in split_by_budget([len(turn.input_ids) for turn in turns], settings.tokens_per_microbatch)
    ]

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for ids, attention, targets, behaviour, advantage, weight in passes:
            logits: Tensor = model(input_ids=ids, attention_mask=attention).logits
            logs = torch.log_softmax(logits.float(), -1).gather(-1, targets[..., None]).squeeze(-1)
            ratio = torch.exp(torch.where(weight > 0, logs - behaviour, 0.0))
            clipped = ratio.clamp(1 - settings.epsilon, 1 + settings.epsilon_high)
            loss = -(weight * torch.minimum(ratio * advantage, clipped * advantage)).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
            del logits, logs, loss
        nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
        optimizer.step()
        return total

    return step


def _padded(
    turns: Sequence[TrainingTurn], advantages: Sequence[float], count: int, device: torch.device
) -> tuple[Tensor, ...]:
    """Ids, attention mask, targets, behaviour log-probabilities, advantages and weights, all (rows, longest)."""
    shape = (len(turns), max(len(turn.input_ids) for turn in turns))
    ids, attention, targets = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
    behaviour, advantage, weight = (torch.zeros(shape) for _ in range(3))
    for row, turn in enumerate(turns):
        length, where = len(turn.input_ids), torch.from_numpy(turn.position_S)
        ids[row, :length] = torch.from_numpy(turn.input_ids).long()
        attention[row, :length] = 1
        targets[row, where] = torch.from_numpy(turn.target_S)
        behaviour[row, where] = torch.from_numpy(turn.behaviour_S)
        advantage[row, where] = advantages[turn.turn]
        weight[row, where] = 1 / (len(turn.position_S) * count)
    return tuple(each.to(device) for each in (ids, attention, targets, behaviour, advantage, weight))


def device_name(device: torch.device) -> str:
    """What the hardware is called."""
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
    """Print every figure, and write them as JSON; without a GPU say so and succeed."""
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
        "figures": [{"benchmark": "gpu", **asdict(figure), "ratio": figure.ratio} for figure in found],
    }
    chosen.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
