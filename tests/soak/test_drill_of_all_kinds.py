"""``entente drill`` with many kinds of faults in one training, and a reconciliation that balances."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from cluster.runs.folder import last_update
from cluster.runs.restarts import restarts
from tests.system.support.training_process import ENTENTE

pytestmark = pytest.mark.timeout(2400)

KINDS = ("rollout", "server", "driver", "checkpoint", "full", "poison", "block", "future", "oversized", "foreign")


def test_a_run_recovers_from_every_kind_of_fault_and_loses_no_episode(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "drill.json"
    only = [word for kind in KINDS for word in ("--only", kind)]
    done = subprocess.run(
        [*ENTENTE, "drill", "--faults", str(len(KINDS)), "--run-dir", str(run), "--json", str(out), *only],
        capture_output=True, text=True, timeout=1700,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert found["failure"] is None
    faults = {fault["kind"]: fault for fault in found["faults"]}
    assert faults.keys() == set(KINDS)
    assert all(fault["further_update"] > fault["update"] for fault in faults.values())
    assert [kind for kind in KINDS if faults[kind]["reaction"] == "starts itself again"] == ["server", "checkpoint"]
    assert len(restarts(run)) >= 2
    assert len(found["checks"]) == 9
    assert all(check["passed"] for check in found["checks"])
    lengths = found["lengths"]
    assert lengths["trained"]["episodes"] + lengths["left_out"]["episodes"] >= 14 * len(KINDS)
    assert len(lengths["trained"]["counts"]) > 3
    assert lengths["undisturbed"]["mean"] > 13
    log = (run / "drill.log").read_text()
    assert "started again from the last checkpoint in 2 s (1 of 3 without a further update, run.max_restarts)" in log
    assert "Traceback" not in log
    # The run's own records.
    assert last_update(run) > len(KINDS)
    lines = (run / "metrics.jsonl").read_text().splitlines()
    newest = next(line["metrics"] for line in map(json.loads, reversed(lines)) if "entente_loss" in line["metrics"])
    assert newest["entente_run_restarts_total"] == len(restarts(run))
    assert newest["entente_poison_episodes_total"] == 6  # two of the block
