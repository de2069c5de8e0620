"""One drill: start a training, cause faults at seeded moments, wait until it got over each, close the books."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cluster.configs.loader import dump_config
from cluster.configs.schema import Config
from cluster.drill.errors import BrokenPromiseError
from cluster.drill.faults import Reaction, Scene, draw, faults_of
from cluster.drill.reconciliation import balance, damaged_checkpoints, read_books, updates_recorded
from cluster.drill.record import Overcome, Promise, Record, promises_of_books
from cluster.drill.replay_store import Store
from cluster.drill.settings import PATIENCE_S, STOPPED_S, Engine, drill_config
from cluster.drill.training_process import Training, runs
from cluster.errors import RunError
from cluster.runs.folder import RunFolder
from cluster.runs.recovery import restarts
from cluster.runtime.replay_server import replay_server
from services.inference.vllm_backend.startup import vllm_installed

FIRST_UPDATE_S = 600.0  # loading included, on a machine that is busy
CALM_S = (0.2, 4.0)  # between two faults: from, to
LAST_UPDATES = 2  # made undisturbed at the end
INTERRUPTED = 130  # exit status of a run that was asked to stop and has saved

Watch = Callable[[str], None]  # hears what goes on


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for."""

    faults: int
    seed: int
    run_dir: Path
    engine: Engine
    only: tuple[str, ...] = ()  # kinds; none: all

    @property
    def kinds(self) -> list[str]:
        """The kinds of faults, in the order of their table."""
        return [name for name in faults_of(self.engine) if not self.only or name in self.only]

    def check(self) -> None:
        """Refuse what cannot begin.

        Raises:
            RunError: a kind of fault does not exist, vLLM is not installed, or the folder has a run already.
        """
        known = list(faults_of(self.engine))
        for name in self.only:
            if name not in known:
                raise RunError(
                    f"no fault is called {name!r} with the {self.engine} engine; there are {', '.join(known)}"
                )
        if self.engine == "vllm" and not vllm_installed():
            raise RunError("vLLM is not installed: `make vllm` brings its CPU build")
        if RunFolder(self.run_dir).begun:
            raise RunError(f"{self.run_dir} already holds a run; choose another --run-dir, or remove it")


def drill(plan: Plan, record: Record, watch: Watch) -> None:
    """Carry it out; everything is ended that it started.

    Args:
        plan: what to do.
        record: is filled as it goes on.
        watch: hears of every stage and fault.

    Raises:
        RunError: see ``Plan.check``.
        BrokenPromiseError: the run did not get over a fault, or its books do not balance.
    """
    plan.check()
    rng = random.Random(plan.seed)
    kinds = draw(plan.kinds, plan.faults, rng)
    folder = RunFolder(plan.run_dir)
    plan.run_dir.mkdir(parents=True, exist_ok=True)
    config = drill_config(plan.engine, plan.faults, plan.seed)
    file = plan.run_dir / "drill.toml"
    file.write_text(dump_config(config), encoding="utf-8")
    training = Training(plan.run_dir, file, plan.run_dir / "drill.log")
    scene = Scene(training, folder, rng, config.learner.checkpoint_every, STOPPED_S)
    try:
        watch("starting the training")
        training.start()
        training.wait(lambda: training.update >= 1, "first update", FIRST_UPDATE_S)
        for kind in kinds:
            time.sleep(rng.uniform(*CALM_S))
            watch(f"{kind}: {faults_of(plan.engine)[kind].does}")
            record.overcome.append(overcome(kind, scene, record, plan.engine))
        watch("letting the run finish")
        finish(training, record)
        watch("closing the books")
        close_books(config, scene, record)
    except BrokenPromiseError as error:
        record.broken = str(error)
        raise
    finally:
        training.close()


def overcome(kind: str, scene: Scene, record: Record, engine: Engine) -> Overcome:
    """Cause a fault and wait until the run has got over it.

    Raises:
        BrokenPromiseError: it did not, or not as it should have.
    """
    fault, training = faults_of(engine)[kind], scene.training
    update, before, driver = training.update, len(restarts(scene.folder.path)), training.driver
    at_s, start = record.elapsed_s, time.monotonic()
    scene.witness()
    struck = fault.cause(scene)
    caused = f"{kind} ({struck.what})"

    def reacted() -> bool:
        left = any(map(runs, struck.victims))
        return not left and (fault.reaction != "starts itself again" or len(restarts(scene.folder.path)) > before)

    def set_aside() -> bool:
        with scene.store() as store:
            return store.counters().get("poison", 0) >= len(scene.spoiled)

    training.wait(reacted, f"reaction to {caused}", PATIENCE_S)
    newest = max(update, training.update)
    training.wait(lambda: training.update >= newest + fault.updates, f"further update after {caused}", PATIENCE_S)
    if struck.poison:
        training.wait(set_aside, f"setting aside of {caused}", PATIENCE_S)
    reaction = _reaction(training.driver != driver, len(restarts(scene.folder.path)) - before)
    if reaction != fault.reaction:
        raise BrokenPromiseError(f"after {caused} the run {reaction}, and it should be that it {fault.reaction}")
    return Overcome(
        kind, struck.what, round(at_s, 1), update, reaction, round(time.monotonic() - start, 1), training.update
    )


def finish(training: Training, record: Record) -> None:
    """Stop the run as a job manager does, go on with it to its end, and see that nothing is left of it.

    Raises:
        BrokenPromiseError: it did not stop or end as it should.
    """
    training.driver.send_signal(signal.SIGTERM)
    status = training.finish(PATIENCE_S)
    if status != INTERRUPTED:
        raise BrokenPromiseError(f"the run was asked to stop, and ended with status {status}")
    training.start([f"learner.updates={training.update + LAST_UPDATES}"])
    status = training.finish(PATIENCE_S)
    if status:
        raise BrokenPromiseError(f"the run's end has status {status}")
    left = training.survivors()
    record.promises.append(Promise("no process is left behind", not left, "; ".join(left) or "none is"))


def close_books(config: Config, scene: Scene, record: Record) -> None:
    """Compare what was stored, used and set aside.

    Raises:
        BrokenPromiseError: something does not balance.
    """
    folder = scene.folder
    with replay_server(config, folder) as url, Store(url, folder.run_id) as store:
        books = read_books(folder.path, store, scene.witnessed)
    record.promises += promises_of_books(books, balance(books), len(scene.spoiled))
    damaged, lines = damaged_checkpoints(folder), updates_recorded(folder)
    record.promises += [
        Promise("every checkpoint is whole", not damaged, f"damaged: {', '.join(damaged) or 'none'}"),
        Promise(
            "every update is recorded once",
            lines == list(range(1, scene.training.update + 1)),
            f"{scene.training.update} updates, {len(lines)} lines of {len(set(lines))} updates",
        ),
    ]
    broken = [promise for promise in record.promises if not promise.kept]
    if broken:
        raise BrokenPromiseError("; ".join(f"not kept: {promise.text} ({promise.found})" for promise in broken))


def _reaction(started_again: bool, restarted: int) -> Reaction:
    if started_again:
        return "is started again"
    return "starts itself again" if restarted else "goes on"
