"""Several processes of the learner make the update of one; ``tests/soak`` has the other settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.support.learner_group import (
    LORA,
    SPECIALISTS,
    check_two_make_the_updates_of_one,
    largest_difference,
    learner_of,
    losses,
    saved,
    train,
)

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]


@pytest.mark.usefixtures("own_ray")
@pytest.mark.parametrize(
    ("settings", "free"),
    [((), False), (LORA, True), (SPECIALISTS, False)],
    ids=["full weights, masked", "adapter, free text", "adapters of roles, masked"],
)
def test_two_processes_make_the_updates_of_one(tmp_path: Path, settings: tuple[str, ...], free: bool) -> None:
    check_two_make_the_updates_of_one(tmp_path, settings, updates=5, free=free)


@pytest.mark.usefixtures("own_ray")
def test_dynamic_sampling_drops_the_same_games_on_every_process(tmp_path: Path) -> None:
    results = []
    for processes in (1, 2):
        with learner_of(processes, tmp_path / f"of {processes}", "learner.top_up_episodes=14") as (worker, _):
            made = train(worker, 3, alike="FRANCE")
            results.append((saved(worker.checkpoint()), losses(made), made[-1][0].metrics))
    (one, one_losses, one_metrics), (two, two_losses, two_metrics) = results
    assert largest_difference(one, two) < 1e-6
    assert two_losses == pytest.approx(one_losses, abs=1e-6)
    dropped = "entente_zero_variance_fraction"
    assert two_metrics[dropped] == one_metrics[dropped] == pytest.approx(1 / 7)
