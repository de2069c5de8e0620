"""Log-probabilities of sampled tokens under any Hugging Face causal LM, with logits only where a token was sampled.

Axes: H hidden size, N trained tokens (M sampled under a mask, F from the whole vocabulary), A admissible ids of all
masked tokens, U distinct ones among them.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grpo_core.batching.microbatches import MicroBatch
from grpo_core.forward.chunked_head import vocabulary_logprobs
from grpo_core.forward.hidden_after_prompts import hidden_after_prompts
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

    They are normalised over the ids that were admissible, at the turn's temperature, as when the engine sampled.
    Entropies are differentiable only with ``entropy_grad``.
    """
    if micro.prompts is None:
        hidden_NH = hidden_at(model, micro.input_ids, micro.hidden_index_N)
    else:
        hidden_NH = hidden_after_prompts(model, micro.prompts, micro.input_ids, micro.hidden_index_N)
    head: Any = model.get_output_embeddings()  # type: ignore[operator]
    if not len(micro.free_F):
        return _over_admissible(hidden_NH, micro.temperature_N, head, micro, entropy_grad)
    free, masked = micro.free_F, micro.masked_M
    if not len(masked):
        return _over_vocabulary(hidden_NH, micro.temperature_N, micro.target_N, head, entropy_grad)
    chosen_F, entropy_F = _over_vocabulary(
        hidden_NH[free], micro.temperature_N[free], micro.target_N[free], head, entropy_grad
    )
    chosen_M, entropy_M = _over_admissible(hidden_NH[masked], micro.temperature_N[masked], head, micro, entropy_grad)
    nothing_N = torch.zeros_like(micro.behaviour_N)
    chosen_N = nothing_N.index_copy(0, free, chosen_F).index_copy(0, masked, chosen_M)
    return chosen_N, nothing_N.index_copy(0, free, entropy_F).index_copy(0, masked, entropy_M)


def _over_vocabulary(
    hidden_FH: Tensor, temperature_F: Tensor, target_F: Tensor, head: Any, entropy_grad: bool
) -> tuple[Tensor, Tensor]:
    chosen_F, entropy_F = vocabulary_logprobs(hidden_FH, head.weight, head.bias, temperature_F, target_F)
    return chosen_F, entropy_F if entropy_grad else entropy_F.detach()


def _over_admissible(
    hidden_MH: Tensor, temperature_M: Tensor, head: Any, micro: MicroBatch, entropy_grad: bool
) -> tuple[Tensor, Tensor]:
    """Compute the log-softmax of flat scores, one segment for each token that was sampled under a mask."""
    # One small matrix product for every id that is admissible anywhere here, then the selection of each token's own.
    rows_UH = head.weight.index_select(0, micro.union_id_U)
    bias_U = None if head.bias is None else head.bias.index_select(0, micro.union_id_U)
    row_A = micro.admissible_row_A
    scores_A = F.linear(hidden_MH, rows_UH, bias_U)[row_A, micro.admissible_column_A]
    scaled_A = scores_A.float() / temperature_M[row_A]
    size = len(micro.chosen_M)
    with torch.no_grad():
        top_M = torch.full((size,), -torch.inf, device=scaled_A.device)
        top_M.scatter_reduce_(0, row_A, scaled_A.detach(), "amax")
    shifted_A = scaled_A - top_M[row_A]
    total_M = torch.zeros(size, device=scaled_A.device).index_add(0, row_A, shifted_A.exp())
    log_total_M = total_M.log()
    chosen_M = shifted_A[micro.chosen_M] - log_total_M
    with torch.set_grad_enabled(entropy_grad and torch.is_grad_enabled()):
        # H = log Z - E[score]
        expected_M = torch.zeros(size, device=scaled_A.device).index_add(0, row_A, shifted_A.exp() * shifted_A)
        entropy_M = log_total_M - expected_M / total_M
    return chosen_M, entropy_M if entropy_grad else entropy_M.detach()
