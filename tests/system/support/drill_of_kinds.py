"""A drill of some kinds of faults, and what must be true of the run afterwards."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cluster.runs.folder import last_update
from cluster.runs.restarts import restarts
from tests.system.support.training_process import ENTENTE


def check_drill(
    folder: Path, kinds: Sequence[str], *, restarting: Sequence[str], poison_episodes: int, servers: int = 1
) -> None:
    """Drill a run in ``folder`` once with each kind of fault; no episode may be lost.

    After those of ``restarting`` the run starts itself again. Its episodes are on so many ``servers``.
    """
    run, out = folder / "run", folder / "drill.json"
    only = [word for kind in kinds for word in ("--only", kind)]
    done = subprocess.run(
        [*ENTENTE, "drill", "--faults", str(len(kinds)), "--servers", str(servers),
         "--run-dir", str(run), "--json", str(out), *only],
        capture_output=True, text=True, timeout=1700,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert found["failure"] is None
    faults = {fault["kind"]: fault for fault in found["faults"]}
    assert faults.keys() == set(kinds)
    assert all(fault["further_update"] > fault["update"] for fault in faults.values())
    assert [kind for kind in kinds if faults[kind]["reaction"] == "starts itself again"] == list(restarting)
    assert len(restarts(run)) >= len(restarting)
    assert len(found["checks"]) == 9
    assert all(check["passed"] for check in found["checks"])
    lengths = found["lengths"]
    assert lengths["trained"]["episodes"] + lengths["left_out"]["episodes"] >= 14 * len(kinds)
    assert len(lengths["trained"]["counts"]) > 3
    assert lengths["undisturbed"]["mean"] > 13
    log = (run / "drill.log").read_text()
    assert "started again from the last checkpoint in 2 s (1 of 3 without a further update, run.max_restarts)" in log
    assert "Traceback" not in log
    if servers > 1:
        folders = sorted((run / "redis").iterdir())
        assert [each.name for each in folders] == [str(number) for number in range(1, servers + 1)]
    # The run's own records.
    assert last_update(run) > len(kinds)
    lines = (run / "metrics.jsonl").read_text().splitlines()
    newest = next(line["metrics"] for line in map(json.loads, reversed(lines)) if "entente_loss" in line["metrics"])
    assert newest["entente_run_restarts_total"] == len(restarts(run))
    assert newest["entente_poison_episodes_total"] == poison_episodes


def check_ranks_killed(folder: Path, processes: int) -> None:
    """Kill each of the learner's processes once in one training; no episode may be lost or used twice."""
    run, out = folder / "run", folder / "drill.json"
    kinds = ["learner", *(f"learner-{rank}" for rank in range(1, processes))]
    only = [word for kind in kinds for word in ("--only", kind)]
    done = subprocess.run(
        [*ENTENTE, "drill", "--faults", str(processes), "--processes", str(processes), "--no-compare",
         "--run-dir", str(run), "--json", str(out), *only],
        capture_output=True, text=True, timeout=6000,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert {fault["kind"] for fault in found["faults"]} == set(kinds)
    assert {fault["reaction"] for fault in found["faults"]} == {"starts itself again"}
    assert all(check["passed"] for check in found["checks"])
    assert "Traceback" not in (run / "drill.log").read_text()
