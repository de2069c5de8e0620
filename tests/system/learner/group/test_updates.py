"""Several processes of the learner make the update of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.support.learner_group import largest_difference, learner_of, losses, saved, train

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

UPDATES = 20
LORA = ("policy.use_peft=true", "policy.lora_r=2", "learner.beta=0.02")
FREE = ("inference.decoding=free",)


@pytest.mark.usefixtures("own_ray")
@pytest.mark.parametrize("free", [False, True], ids=["masked", "free text"])
@pytest.mark.parametrize("settings", [("learner.beta=0.02",), LORA], ids=["full weights", "adapters"])
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
    assert one_payload.probe is not None
    assert two_payload.probe is not None
    assert one_payload.probe.tokens == two_payload.probe.tokens
