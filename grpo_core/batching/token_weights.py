"""The weight of one trained token in the loss: the named normalisers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from grpo_core.settings import Normalizer


def turn_token_weights(
    normalizer: Normalizer,
    trained_tokens: Sequence[int],
    episodes: Sequence[int],
    *,
    max_completion_length: int | None = None,
    batch_tokens_per_step: float | None = None,
) -> NDArray[np.float64]:
    """Return the weight of one trained token of each turn of an optimizer step, shape (turns,).

    ``token``: one over the step's trained tokens, so long games weigh more (TRL's ``bnpo``). ``batch_token``: one over
    ``batch_tokens_per_step``, so a token weighs the same in every step of the update (TRL's ``dapo`` and ``cispo``).
    ``turn``: every turn weighs the same (TRL's ``grpo``). ``episode``: every episode weighs the same.
    ``max_completion_length``: one over the turns times that constant, so no length counts (Dr. GRPO, arXiv 2503.20783).

    Under ``token``, ``turn`` and ``episode`` the weights of all trained tokens sum to 1.

    Args:
        normalizer: one of the names above.
        trained_tokens: the number of each turn; turns without any are ignored and get 0.
        episodes: the episode of each turn, any integers.
        max_completion_length: tokens; needed by the normaliser of that name.
        batch_tokens_per_step: trained tokens of the update over its optimizer steps an epoch; ``batch_token`` needs it.
    """
    counts = np.asarray(trained_tokens, np.float64)
    present = counts > 0
    weights = np.zeros(len(counts), np.float64)
    if not present.any():
        return weights
    if normalizer == "token":
        weights[present] = 1.0 / counts.sum()
    elif normalizer == "turn":
        weights[present] = 1.0 / (counts[present] * present.sum())
    elif normalizer == "episode":
        _, owner = np.unique(np.asarray(episodes)[present], return_inverse=True)
        tokens_per_episode = np.bincount(owner, weights=counts[present])
        weights[present] = 1.0 / (tokens_per_episode[owner] * len(tokens_per_episode))
    elif normalizer == "batch_token":
        assert batch_tokens_per_step is not None
        weights[present] = 1.0 / batch_tokens_per_step
    else:
        assert max_completion_length is not None
        weights[present] = 1.0 / (present.sum() * max_completion_length)
    return weights
