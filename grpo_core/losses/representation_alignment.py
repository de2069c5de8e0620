"""Cross-role alignment: an auxiliary loss that draws similar roles' hidden states together without collapse.

Axes: B rows (turns), L positions, H hidden size, R rows of one role.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grpo_core.batching.microbatches import TrainingTurn
from grpo_core.settings import AlignmentSettings

_MIN_ROWS = 2  # with fewer a role has no variance, so a collapse could not be detected
_VARIANCE_EPS = 1e-4  # keeps the deviation's gradient finite when a role has collapsed


def masked_mean(hidden_BLH: Tensor, mask_BL: Tensor) -> Tensor:
    """Return the mean hidden state of each row under its mask, shape (B, H), float32; 0 for a row without a position.

    Masked values have no influence, even if they are not finite, and a gradient of exactly 0.
    """
    kept = torch.where(mask_BL.bool()[:, :, None], hidden_BLH.float(), 0.0)
    return kept.sum(1) / mask_BL.bool().sum(1).clamp(min=1)[:, None]


def alignment_loss(hidden_BLH: Tensor, mask_BL: Tensor, roles: Sequence[str], settings: AlignmentSettings) -> Tensor:
    """Compute the alignment loss of one batch, a float32 scalar.

    Rows are pooled by ``masked_mean``. With ``Z_a`` the (R, H) rows of role a and ``m_a`` their mean:

        loss = weight * (mean over pairs |m_a - m_b|^2 / H
                         + variance * mean over roles, dimensions max(0, deviation - sqrt(Var Z_a + 1e-4))
                         + covariance * mean over roles sum_{i != j} Cov(Z_a)_ij^2 / H)

    The first term alone has a trivial optimum, one state for all inputs. The others prevent it, as in VICReg (arXiv
    2105.04906), whose weights have the defaults' ratio, 25 : 25 : 1.

    A pair is compared if both roles have at least two rows with a position under the mask. Without such a pair, or at
    weight 0, the loss is exactly 0 and has no gradient.
    """
    rows: dict[str, list[int]] = {}
    for row, (role, present) in enumerate(zip(roles, mask_BL.bool().any(1).tolist(), strict=True)):
        if present:
            rows.setdefault(role, []).append(row)
    pairs = [(a, b) for a, b in settings.pairs if len(rows.get(a, ())) >= _MIN_ROWS <= len(rows.get(b, ()))]
    if not pairs or settings.weight == 0:
        return torch.zeros((), device=hidden_BLH.device)
    names = sorted({role for pair in pairs for role in pair})
    chosen = [row for name in names for row in rows[name]]
    parts = torch.split(masked_mean(hidden_BLH[chosen], mask_BL[chosen]), [len(rows[name]) for name in names])
    states = dict(zip(names, parts, strict=True))
    pull = torch.stack([F.mse_loss(states[a].mean(0), states[b].mean(0)) for a, b in pairs]).mean()
    variance = torch.stack([_variance_shortfall(rows_RH, settings.deviation) for rows_RH in states.values()]).mean()
    covariance = torch.stack([_covariance_excess(rows_RH) for rows_RH in states.values()]).mean()
    return settings.weight * (pull + settings.variance * variance + settings.covariance * covariance)


def alignment_of_turns(
    model: nn.Module,
    turns: Sequence[TrainingTurn],
    roles: Sequence[str],
    settings: AlignmentSettings,
    generator: np.random.Generator,
) -> Tensor:
    """Compute the alignment loss of randomly drawn turns, at most ``settings.rows`` of each paired role, in one pass.

    A turn's state is the mean of the decoder's last hidden states up to its first choice. The ``turns`` are those of
    one optimizer step, with one of ``roles`` each, so the draw does not depend on micro-batches.
    """
    paired = {role for pair in settings.pairs for role in pair}
    chosen: list[int] = []
    for role in sorted(paired & set(roles)):
        mine = [index for index, other in enumerate(roles) if other == role]
        chosen += generator.permutation(mine)[: settings.rows].tolist()
    if not chosen:
        return torch.zeros(())
    longest = max(len(turns[index].input_ids) for index in chosen)
    input_ids = np.zeros((len(chosen), longest), np.int64)
    mask = np.zeros((len(chosen), longest), np.bool_)
    for row, index in enumerate(chosen):
        turn = turns[index]
        input_ids[row, : len(turn.input_ids)] = turn.input_ids
        mask[row, : turn.position_S[0] + 1] = True
    device = next(model.parameters()).device
    decoder: Any = model.get_decoder()  # type: ignore[operator]
    # No attention mask: the model is causal, so padding on the right does not reach the masked-in positions.
    hidden_BLH = decoder(input_ids=torch.from_numpy(input_ids).to(device), use_cache=False).last_hidden_state
    return alignment_loss(hidden_BLH, torch.from_numpy(mask).to(device), [roles[index] for index in chosen], settings)


def _variance_shortfall(rows_RH: Tensor, deviation: float) -> Tensor:
    return F.relu(deviation - (rows_RH.var(0) + _VARIANCE_EPS).sqrt()).mean()


def _covariance_excess(rows_RH: Tensor) -> Tensor:
    centred = rows_RH - rows_RH.mean(0)
    covariance_HH = centred.T @ centred / (len(rows_RH) - 1)
    off_diagonal = covariance_HH.square().sum() - covariance_HH.diagonal().square().sum()
    return off_diagonal / rows_RH.shape[1]
