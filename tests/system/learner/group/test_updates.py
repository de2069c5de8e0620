"""Several processes of the learner make the update of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_core.types import Probe
from services.weights.payload import Payload
from tests.system.support.learner_group import largest_difference, learner_of, losses, saved, train

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

UPDATES = 20
LORA = ("policy.use_peft=true", "policy.lora_r=2", "learner.beta=0.02")
SPECIALISTS = (*LORA, "policy.specialists=true")
FREE = ("inference.decoding=free",)


@pytest.mark.usefixtures("own_ray")
@pytest.mark.parametrize("free", [False, True], ids=["masked", "free text"])
@pytest.mark.parametrize(
    "settings", [("learner.beta=0.02",), LORA, SPECIALISTS], ids=["full weights", "adapter", "adapters of roles"]
)
def test_two_processes_make_the_updates_of_one(tmp_path: Path, settings: tuple[str, ...], free: bool) -> None:
    settings = (*settings, *(FREE if free else ()))
    results = []
    for processes in (1, 2):
        with learner_of(processes, tmp_path / f"of {processes}", *settings) as (worker, _):
            made = train(worker, UPDATES, free=free)
            results.append((saved(worker.checkpoint()), losses(made), made[-1][1]))
    (one, one_losses, one_payload), (two, two_losses, two_payload) = results
    print("largest difference", largest_difference(one, two))
    assert largest_difference(one, two) < 1e-6
    assert two_losses == pytest.approx(one_losses, abs=1e-6)
    one_probes, two_probes = probes(one_payload), probes(two_payload)
    assert len(one_probes) == (7 if SPECIALISTS[-1] in settings else 1)
    assert [probe.tokens for probe in one_probes] == [probe.tokens for probe in two_probes]


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


def probes(payload: Payload) -> list[Probe]:
    """The probe of the weights, or of each role's."""
    return [probe for _, probe in payload.by_role.values()] if payload.by_role else [payload.probe]
