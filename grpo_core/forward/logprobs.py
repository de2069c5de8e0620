"""Log-probabilities of sampled tokens under any Hugging Face causal LM, with logits only where a token was sampled.

Axes: H hidden size, N trained tokens, A admissible ids of all trained tokens, U distinct ones among them.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grpo_core.batching.microbatches import MicroBatch
from grpo_core.forward.chunked_head import vocabulary_logprobs
from grpo_core.forward.hidden_states import hidden_at


def check_head(model: nn.Module) -> None:
    """Raise ValueError if the model's configuration scales or caps logits after the output embeddings."""
    config: Any = getattr(model, "config", None)
    for name in ("final_logit_softcapping", "logit_scale", "logits_scaling"):
        if getattr(config, name, None) not in (None, 1, 1.0):
            message = f"{type(model).__name__} sets config.{name}; the learner applies plain output embeddings only"
            raise ValueError(message)


def token_logprobs(model: nn.Module, micro: MicroBatch, *, entropy_grad: bool = False) -> tuple[Tensor, Tensor]:
    """Compute log-probabilities (N,) and entropies (N,) in nats, float32, of a micro-batch's sampled tokens.

    They are normalised over the admissible ids at the turn's temperature, as when the engine sampled. Entropies are
    differentiable only with ``entropy_grad``.
    """
    hidden_NH = hidden_at(model, micro.input_ids, micro.hidden_index_N)
    head: Any = model.get_output_embeddings()  # type: ignore[operator]
    if micro.free:
        chosen_N, entropy_N = vocabulary_logprobs(
            hidden_NH, head.weight, head.bias, micro.temperature_N, micro.chosen_N
        )
        return chosen_N, entropy_N if entropy_grad else entropy_N.detach()
    # One small matrix product for every id that is admissible anywhere here, then the selection of each token's own.
    rows_UH = head.weight.index_select(0, micro.union_id_U)
    bias_U = None if head.bias is None else head.bias.index_select(0, micro.union_id_U)
    scores_A = F.linear(hidden_NH, rows_UH, bias_U)[micro.admissible_row_A, micro.admissible_column_A]
    return _over_admissible(scores_A, micro, entropy_grad)


def _over_admissible(scores_A: Tensor, micro: MicroBatch, entropy_grad: bool) -> tuple[Tensor, Tensor]:
    """Compute the log-softmax of flat scores, one segment for each trained token."""
    row_A = micro.admissible_row_A
    scaled_A = scores_A.float() / micro.temperature_N[row_A]
    size = len(micro.chosen_N)
    with torch.no_grad():
        top_N = torch.full((size,), -torch.inf, device=scaled_A.device)
        top_N.scatter_reduce_(0, row_A, scaled_A.detach(), "amax")
    shifted_A = scaled_A - top_N[row_A]
    total_N = torch.zeros(size, device=scaled_A.device).index_add(0, row_A, shifted_A.exp())
    log_total_N = total_N.log()
    chosen_N = shifted_A[micro.chosen_N] - log_total_N
    with torch.set_grad_enabled(entropy_grad and torch.is_grad_enabled()):
        # H = log Z - E[score]
        expected_N = torch.zeros(size, device=scaled_A.device).index_add(0, row_A, shifted_A.exp() * shifted_A)
        entropy_N = log_total_N - expected_N / total_N
    return chosen_N, entropy_N if entropy_grad else entropy_N.detach()
