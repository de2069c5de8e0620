"""Cross-role alignment: an auxiliary loss that draws similar roles' hidden states together without collapse.

Axes: B rows (turns), L positions, H hidden size, R rows of one role, D size after the projection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grpo_core.batching.microbatches import TrainingTurn
from grpo_core.settings import AlignmentSettings

_MIN_ROWS = 2  # with fewer a role has no variance, so a collapse could not be detected
_VARIANCE_EPS = 1e-4  # keeps the deviation's gradient finite when a role has collapsed


@dataclass(frozen=True, slots=True, eq=False)
class AlignmentLoss:
    """The loss of one batch and its parts; only ``loss`` carries a gradient."""

    loss: Tensor  # scalar float32: weight * (pull + guard)
    pull: float  # mean squared distance of the pairs' means, per dimension
    variance: float  # mean shortfall of the deviations, per dimension
    covariance: float  # squared covariances of distinct dimensions, summed and divided by D
    pairs: int  # the declared pairs that this batch could compare


def masked_mean(hidden_BLH: Tensor, mask_BL: Tensor) -> Tensor:
    """Return the mean hidden state of each row under its mask, shape (B, H), float32; 0 for a row without a position.

    Masked values have no influence, even if they are not finite, and a gradient of exactly 0.
    """
    kept = torch.where(mask_BL.bool()[:, :, None], hidden_BLH.float(), 0.0)
    return kept.sum(1) / mask_BL.bool().sum(1).clamp(min=1)[:, None]


def alignment_loss(
    hidden_BLH: Tensor,
    mask_BL: Tensor,
    roles: Sequence[str],
    settings: AlignmentSettings,
    project: Callable[[Tensor], Tensor] | None = None,
) -> AlignmentLoss:
    """Compute the alignment loss of one batch.

    Rows are pooled by ``masked_mean`` and, with ``project``, mapped from (R, H) to (R, D). With ``Z_a`` the (R, D) rows
    of role a and ``m_a`` their mean:

        loss = weight * (mean over pairs |m_a - m_b|^2 / D
                         + variance * mean over roles, dimensions max(0, deviation - sqrt(Var Z_a + 1e-4))
                         + covariance * mean over roles sum_{i != j} Cov(Z_a)_ij^2 / D)

    The first term alone has a trivial optimum, one state for all inputs. The others prevent it, as in VICReg (arXiv
    2105.04906), whose weights have the defaults' ratio, 25 : 25 : 1.

    A pair is compared if both roles have at least two rows with a position under the mask. Without such a pair, or at
    weight 0, the loss is exactly 0 and has no gradient.

    Raises:
        ValueError: the inputs' lengths differ.
    """
    if hidden_BLH.shape[:2] != mask_BL.shape or len(roles) != len(mask_BL):
        raise ValueError(
            f"hidden states {tuple(hidden_BLH.shape)}, mask {tuple(mask_BL.shape)} and {len(roles)} roles contradict"
        )
    nothing = AlignmentLoss(torch.zeros((), device=hidden_BLH.device), 0.0, 0.0, 0.0, 0)
    if settings.weight == 0:
        return nothing
    rows = _rows_by_role(mask_BL, roles)
    pairs = [(a, b) for a, b in settings.pairs if len(rows.get(a, ())) >= _MIN_ROWS <= len(rows.get(b, ()))]
    if not pairs:
        return nothing
    states = _states_of(sorted({role for pair in pairs for role in pair}), rows, hidden_BLH, mask_BL, project)
    pull = torch.stack([F.mse_loss(states[a].mean(0), states[b].mean(0)) for a, b in pairs]).mean()
    variance = torch.stack([_variance_shortfall(rows_RD, settings.deviation) for rows_RD in states.values()]).mean()
    covariance = torch.stack([_covariance_excess(rows_RD) for rows_RD in states.values()]).mean()
    loss = settings.weight * (pull + settings.variance * variance + settings.covariance * covariance)
    return AlignmentLoss(loss, pull.item(), variance.item(), covariance.item(), len(pairs))


def alignment_of_turns(
    model: nn.Module,
    turns: Sequence[TrainingTurn],
    roles: Sequence[str],
    settings: AlignmentSettings,
    generator: np.random.Generator,
) -> AlignmentLoss:
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
        return AlignmentLoss(torch.zeros(()), 0.0, 0.0, 0.0, 0)
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


def _rows_by_role(mask_BL: Tensor, roles: Sequence[str]) -> dict[str, list[int]]:
    present = mask_BL.bool().any(1).tolist()
    rows: dict[str, list[int]] = {}
    for row, (role, here) in enumerate(zip(roles, present, strict=True)):
        if here:
            rows.setdefault(role, []).append(row)
    return rows


def _states_of(
    names: Sequence[str],
    rows: Mapping[str, list[int]],
    hidden_BLH: Tensor,
    mask_BL: Tensor,
    project: Callable[[Tensor], Tensor] | None,
) -> dict[str, Tensor]:
    """Return pooled and projected rows (R, D) of each named role, with one call of the projection."""
    chosen = [row for name in names for row in rows[name]]
    pooled = masked_mean(hidden_BLH[chosen], mask_BL[chosen])
    mapped = pooled if project is None else project(pooled)
    parts = torch.split(mapped, [len(rows[name]) for name in names])
    return dict(zip(names, parts, strict=True))


def _variance_shortfall(rows_RD: Tensor, deviation: float) -> Tensor:
    return F.relu(deviation - (rows_RD.var(0) + _VARIANCE_EPS).sqrt()).mean()


def _covariance_excess(rows_RD: Tensor) -> Tensor:
    centred = rows_RD - rows_RD.mean(0)
    covariance_DD = centred.T @ centred / (len(rows_RD) - 1)
    off_diagonal = covariance_DD.square().sum() - covariance_DD.diagonal().square().sum()
    return off_diagonal / rows_RD.shape[1]
