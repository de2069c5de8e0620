"""The environment variables that actors and other child processes start with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from grpo_core.reproducible import SETTING, VARIABLE

LEARNER_RANK = "ENTENTE_LEARNER_RANK"  # numbers the processes of a learner, for the drill


def actor_variables(threads: int) -> dict[str, str]:
    """Environment variables of one actor: threads bounded, no downloads from a hub, freed memory kept.

    MKL's choice of kernels follows the driver's. The MALLOC variables keep glibc from returning the buffers of each
    forward pass to the kernel, which makes the torch engine about a fifth faster on a CPU.
    """
    return {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        VARIABLE: os.environ.get(VARIABLE, SETTING),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "MALLOC_TOP_PAD_": str(64 << 20),
        "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
        "MALLOC_TRIM_THRESHOLD_": str(1 << 31),
    }


def sharing_variables(threads: int) -> dict[str, str]:
    """Environment variables of a process that shares a model with others: it returns memory that it has freed.

    What it gathers comes in many sizes, between which the memory that ``actor_variables`` keeps would break to pieces:
    four processes would take as much each as one alone.
    """
    returning = {
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_MMAP_THRESHOLD_": str(1 << 16),
        "MALLOC_TRIM_THRESHOLD_": str(1 << 16),
        "MALLOC_TOP_PAD_": "0",
    }
    return {**actor_variables(threads), **returning}


@contextmanager
def started_with(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for processes that are started inside the block."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def actor_environment(threads: int, *, gpus: float = 0.0, shares: bool = False) -> dict[str, dict[str, str]]:
    """Ray runtime environment with ``actor_variables``, or ``sharing_variables``; an actor without GPUs sees none."""
    hidden = {} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
    variables = sharing_variables(threads) if shares else actor_variables(threads)
    return {"env_vars": {**variables, **hidden}}
