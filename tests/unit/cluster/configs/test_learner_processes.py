"""A learner of several processes in the config, the memory estimate, the doctor and the drill."""

from __future__ import annotations

import pytest

from cluster.configs.loader import load_config
from cluster.diagnostics.doctor import examine
from cluster.drill.faults.table import faults_of
from cluster.errors import ConfigError
from cluster.runtime.memory import learner_estimate, needed_bytes
from cluster.runtime.placement import bundles, cpus_asked, gpus_asked


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("grouping.gradient_surgery=pcgrad", "grouping.gradient_surgery"),
        ("alignment.weight=0.1", "alignment.weight"),
        ("rollout.share_gpu_with_learner=true", "rollout.share_gpu_with_learner"),
    ],
)
def test_what_several_processes_cannot_do_is_refused_by_name(setting: str, named: str) -> None:
    load_config("smoke", [setting])
    with pytest.raises(ConfigError, match=f"learner.processes = 2 needs {named}"):
        load_config("smoke", [setting, "learner.processes=2"])


def test_places_are_asked_for_every_process() -> None:
    asked = load_config("smoke", ["learner.processes=3", "learner.gpus=1", "rollout.gpus_per_actor=1"])
    assert bundles(asked.rollout, asked.learner) == [{"CPU": 1.0, "GPU": 1.0}] * 4
    assert (cpus_asked(asked.rollout, asked.learner), gpus_asked(asked.rollout, asked.learner)) == (4, 4)


def test_each_process_is_estimated_to_hold_its_share() -> None:
    big = ("policy.hidden_size=1024", "policy.layers=24", "policy.intermediate_size=4096")
    one, four = (load_config("smoke", [*big, f"learner.processes={count}"]) for count in (1, 4))
    alone, shared = learner_estimate(one), learner_estimate(four)
    for part in ("weights", "gradients", "moments"):
        assert abs(4 * getattr(shared, part) - getattr(alone, part)) < 4
    assert shared.total < alone.total
    assert shared.gathered > 0
    assert needed_bytes(four) > needed_bytes(one)  # on one machine


def test_the_doctor_says_how_the_processes_exchange() -> None:
    found = [
        finding for finding in examine(load_config("smoke", ["learner.processes=2"])) if finding.subject == "learner"
    ]
    assert len(found) == 1
    assert "2 processes" in found[0].text
    assert not [finding for finding in examine(load_config("smoke")) if finding.subject == "learner"]


def test_the_drill_has_a_fault_for_each_process() -> None:
    assert not {"learner-1", "learner-2"} & set(faults_of("torch", "embedded"))
    assert {"learner", "learner-1", "learner-1-stop", "learner-2"} <= set(faults_of("torch", "embedded", 3))
