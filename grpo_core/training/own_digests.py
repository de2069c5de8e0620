"""Digests of what each of several processes computes by itself, although all must come to the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np

from grpo_core.advantages.group_baseline import RunningBaseline
from grpo_core.types import FloatArray


def own_digests(
    turn_advantages: FloatArray,
    turns: Sequence[int],
    baselines: Mapping[str, RunningBaseline],
    generator: np.random.Generator,
) -> dict[str, str]:
    """Return the SHA-256 of each of the four by its name in a message, equal only where every bit is.

    An update's loss and gradient norm are sums over the processes: they are the same everywhere, even if these are not.

    Args:
        turn_advantages: (turns,) in episode order.
        turns: the turns in the loss, as indices into ``turn_advantages``.
        baselines: the roles' running baselines after the update.
        generator: of the shuffles into minibatches, after the update.
    """
    lines = [[role, float(line.mean), float(line.variance)] for role, line in sorted(baselines.items())]
    parts = {
        "advantages": turn_advantages.tobytes(),
        "turns in the loss": np.array(turns, np.int64).tobytes(),
        "running baselines": json.dumps(lines).encode(),
        "shuffles": json.dumps(generator.bit_generator.state, sort_keys=True).encode(),
    }
    return {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}
