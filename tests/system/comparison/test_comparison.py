"""Comparisons from the command line: every method on every task, a crash and its resumption, and the page."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from cluster.comparison.methods import METHODS
from cluster.comparison.plans import PLANS
from tests.system.reports.test_pages import LAPTOP, PHONE, Visit
from tests.system.support.training_process import ENTENTE, PATIENCE_S, handle_stop_signals

pytestmark = pytest.mark.system

QUICK = ("--tasks", "cartpole", "--methods", "grpo_time,grpo_auto", "--seeds", "2", "--processes", "1")


def compared(out: Path, *words: str, plan: str = "smoke") -> subprocess.CompletedProcess[str]:
    command = [*ENTENTE, "compare", plan, "--out", str(out), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def results(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "results.json").read_text())
    return found


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compare") / "smoke"
    done = compared(out)
    assert done.returncode == 0, done.stderr
    assert f"written to {out / 'results.json'}" in done.stdout
    return out


def test_every_method_runs_on_every_task(smoke: Path) -> None:
    found = results(smoke)
    assert found["missing"] == []
    assert found["summary"]["diverged"] == []
    last = {(row["method"], row["task"]): row for row in found["rows"]}
    assert {method for method, _ in last} == set(METHODS)
    for plan in PLANS["smoke"].tasks:
        for method in plan.methods:
            if METHODS[method].needs_fact and plan.task != "cartpole_family":
                continue
            row = last[method, plan.task]
            assert row[plan.unit] >= plan.budget / 2  # a measurement comes at the update nearest to its budget
            assert math.isfinite(row["return"])
            if "poker" in plan.task:
                assert 0 < row["exploitability"] < 6
            if "diplomacy" in plan.task:
                assert 0 <= row["figures"]["squares"] <= 1


def test_audits_say_which_samples_were_compared(smoke: Path) -> None:
    records = [json.loads(path.read_text()) for path in (smoke / "audit").glob("grpo_task~cartpole_family~0~*.json")]
    assert records
    for record in records:
        assert record["keys"] == ["seat+variant"]
        assert sum(group["judged"] for group in record["groups"]) == 32
        assert {group["key"][1] for group in record["groups"]} == {"tiny", "short", "usual", "heavy", "long"}


def test_a_finished_comparison_is_not_overwritten(smoke: Path) -> None:
    done = compared(smoke)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("error: ")
    assert "--resume" in done.stderr
    before = {path: path.stat().st_mtime_ns for path in (smoke / "cells").iterdir()}
    assert compared(smoke, "--resume").returncode == 0
    assert {path: path.stat().st_mtime_ns for path in (smoke / "cells").iterdir()} == before


def test_runs_of_other_code_are_kept_and_told(smoke: Path) -> None:
    path = min((smoke / "cells").iterdir())
    ours = path.read_text()
    path.write_text(json.dumps(json.loads(ours) | {"commit": "0123456789ab"}))
    try:
        resumed = compared(smoke, "--resume")
        assert resumed.returncode == 0
        assert "0123456789ab" in resumed.stderr
        assert "0123456789ab" in json.loads((smoke / "results.json").read_text())["commit"]
    finally:
        path.write_text(ours)


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_and_shows_every_task(
    browser: Browser, smoke: Path, viewport: dict[str, int], scheme: str
) -> None:
    with Visit(browser, smoke / "compare.html", viewport, scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        text = page.locator("body").inner_text()
        for plan in PLANS["smoke"].tasks:
            assert plan.task in text
        for method in METHODS.values():
            assert method.title in text


def test_what_was_killed_goes_on_and_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert compared(whole, *QUICK).returncode == 0
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [*ENTENTE, "compare", "smoke", "--out", str(killed), *QUICK],
            stdout=log, stderr=log, start_new_session=True, preexec_fn=handle_stop_signals,
        )  # fmt: skip
        try:
            _wait_for_cells(killed, process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
    assert 0 < len(list((killed / "cells").iterdir())) < 4
    done = compared(killed, *QUICK, "--resume")
    assert done.returncode == 0, done.stderr
    assert _timeless(results(killed)["rows"]) == _timeless(results(whole)["rows"])


def test_runs_that_do_not_end_are_named_and_then_given_up(tmp_path: Path) -> None:
    impatient = "import cluster.comparison.comparison as runs; runs._SILENCE_S, runs._SILENCES = 0.5, 2"
    program = f"{impatient}; from cluster.cli.app import main; main()"
    endless = ("compare", "study", "--out", str(tmp_path / "endless"), *QUICK, "--steps", "100000000")
    done = subprocess.run([sys.executable, "-c", program, *endless], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 2, done.stderr
    assert "no run has ended for 0.5 s; still running: grpo_time~cartpole~0" in done.stderr
    assert "error: a run failed: grpo_time~cartpole~0: no run ended within 1 s, and 3 more" in done.stderr


def _wait_for_cells(out: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not any((out / "cells").glob("*.json")):
        assert process.poll() is None, "the comparison ended by itself"
        assert time.monotonic() < until, f"no run of {out} ended within {PATIENCE_S:.0f} s"
        time.sleep(0.02)


def _timeless(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of settings that was begun with fewer trials."""
    out = tmp_path_factory.mktemp("compare") / "settings"
    for words in (("--trials", "10"), ("--trials", "12", "--resume")):
        done = compared(out, "--steps", "400", *words, plan="sensitivity")
        assert done.returncode == 0, done.stderr
    return out


def test_settings_come_from_their_whole_ranges_and_each_has_its_share(settings: Path) -> None:
    found = results(settings)
    assert len(found["sensitivity"]["returns"]) == len(list((settings / "trials").iterdir())) == 12
    taken = {row["settings"]["learning_rate"] for row in found["rows"]}
    assert len(taken) == 12
    assert min(taken) < 1e-3 < max(taken)
    for point in found["sensitivity"]["points"]:
        for each in point["importance"]:
            low, high = each["share_ci95"]
            assert 0 <= low <= each["share"] <= high <= 1
    ranges = {each["name"]: each for each in found["ranges"]}
    for name, value in found["sensitivity"]["recommended"]["settings"].items():
        assert ranges[name]["low"] - 1e-9 <= value <= ranges[name]["high"] + 1e-9
    assert {path.name for path in settings.iterdir()} == {"study.json", "trials", "results.json", "compare.html"}


@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_the_page_of_settings_fits(browser: Browser, settings: Path, viewport: dict[str, int]) -> None:
    with Visit(browser, settings / "compare.html", viewport) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        assert page.locator(".surface").count() == 5
        assert page.locator(".chart .dot").count() == 6


def test_rllib_counts_every_step_and_pays_every_choice() -> None:
    """In a process of its own: RLlib takes seconds to import, and changes torch's settings."""
    done = subprocess.run([sys.executable, "-c", _RLLIB], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr[-2000:]


_RLLIB = """
import contextlib

from cluster.runtime.local_ray import local_ray, prepare_local_ray

prepare_local_ray()  # before Ray is imported
stack = contextlib.ExitStack()
stack.enter_context(local_ray(1, print))
import numpy as np
import torch
from gymnasium.utils.env_checker import check_env
from ray.rllib.utils.pre_checks.env import check_multiagent_environments

from cluster.comparison.methods import RLLIB_SETTINGS
from cluster.comparison.rllib.environments import COUNTED, OneSeat, SeveralSeats
from cluster.comparison.rllib.training import RllibTraining
from services.environments.tensor_tasks.catalogue import make_task

check_env(OneSeat(make_task("cartpole"), "checked", 0), skip_render_check=True)
for name in ("kuhn_poker", "diplomacy", "navigation"):
    check_multiagent_environments(SeveralSeats(make_task(name), "checked", 0))

one = OneSeat(make_task("cartpole"), "one", 0)
steps = 0
for _ in range(3):
    seen, _ = one.reset()
    over = cut = False
    while not (over or cut):
        seen, reward, over, cut, _ = one.step(0)
        steps += 1
assert (COUNTED["one"].steps, COUNTED["one"].episodes) == (steps, 3)

for name in ("kuhn_poker", "diplomacy_random", "navigation"):
    task = make_task(name)
    several, twin = SeveralSeats(task, name, 5), task.make()
    several._game.reset, begin = (lambda seed: begin(11)), several._game.reset
    seen, _ = several.reset()
    twin.reset(11)
    steps, over = 0, False
    paid, due = dict.fromkeys(task.seats, 0.0), dict.fromkeys(task.seats, 0.0)
    while not over and steps < 200:
        chosen = {}
        for seat, view in seen.items():
            legal = view["action_mask"] if isinstance(view, dict) else np.ones(several.action_spaces[seat].n)
            chosen[seat] = int(np.flatnonzero(legal)[-1])
        for seat, reward in twin.step(chosen).items():
            due[seat] += reward
        seen, rewards, ended, cut, _ = several.step(chosen)
        for seat, reward in rewards.items():
            paid[seat] += reward
        steps += 1
        over = ended["__all__"] or cut["__all__"]
    assert over and paid == due, (name, paid, due)
    assert COUNTED[name].steps == steps

SMALL = {**RLLIB_SETTINGS, "train_batch_size": 64, "minibatch_size": 32}

# The environments of a run play other games than one another, and than those of the next run.
for name in ("cartpole", "kuhn_poker"):
    drawn = []
    for seed in (0, 1):
        training = RllibTraining(make_task(name), seed, SMALL)
        vector = training._algorithm.env_runner.env.unwrapped
        drawn += [int(each.unwrapped._seeds.integers(2**31)) for each in vector.envs]
        training.close()
    assert len(drawn) == len(set(drawn)) == 16, drawn

# What training carries out is what a measurement carries out: numbers are cut, not stretched.
training = RllibTraining(make_task("inverted_pendulum"), 0, SMALL)
carried = []
vector = training._algorithm.env_runner.env.unwrapped
for each in vector.envs:
    step = each.unwrapped._game.step
    each.unwrapped._game.step = lambda chosen, step=step: (carried.append(float(chosen["PLAYER"][0])), step(chosen))[1]
training.train()
within = [value for value in carried if abs(value) < 3]
assert len(within) > 0.95 * len(carried)
assert 0.6 < np.std(within) < 1.4, np.std(within)  # an untrained policy has a deviation of 1, and 3 if it is stretched
training.close()
stack.close()
"""
