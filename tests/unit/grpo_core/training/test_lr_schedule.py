"""The learning rate over a run."""

from __future__ import annotations

import pytest

from grpo_core.settings import LearnerSettings
from grpo_core.training.lr_schedule import learning_rate_at


@pytest.mark.parametrize("kind", ["constant", "linear", "cosine"])
@pytest.mark.parametrize("warmup", [0, 1, 10, 60])
def test_the_learning_rate_rises_over_the_warm_up_and_never_afterwards(kind: str, warmup: int) -> None:
    settings = LearnerSettings(learning_rate=0.5, updates=50, lr_warmup_updates=warmup, lr_scheduler_type=kind)
    rates = [learning_rate_at(version, settings) for version in range(settings.updates)]
    up = rates[: max(1, min(warmup, settings.updates))]
    assert all(0 < rate <= 0.5 for rate in rates)
    assert up == sorted(up)
    assert rates[len(up) - 1 :] == sorted(rates[len(up) - 1 :], reverse=True)
    if warmup < settings.updates:
        assert max(rates) == pytest.approx(0.5)


def test_each_schedule_has_its_rate_at_half_time_and_at_the_end() -> None:
    at = {
        kind: [
            learning_rate_at(version, LearnerSettings(
                learning_rate=1.0, updates=100, lr_warmup_updates=0, lr_scheduler_type=kind
            ))
            for version in (25, 50, 100)
        ]
        for kind in ("constant", "linear", "cosine")
    }  # fmt: skip
    assert at["constant"] == [1.0, 1.0, 1.0]
    assert at["linear"] == pytest.approx([0.75, 0.5, 0.0])
    assert at["cosine"] == pytest.approx([0.853553, 0.5, 0.0], abs=1e-6)
