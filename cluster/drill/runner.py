"""One drill: start a training, cause faults at seeded moments, wait for each recovery, reconcile all episodes."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from cluster.configs.loader import dump_config
from cluster.configs.schema import Config
from cluster.drill.endings import end_run
from cluster.drill.external_server import ExternalServer
from cluster.drill.faults.context import DrillContext, Reaction
from cluster.drill.faults.table import Fault, draw, faults_of
from cluster.drill.lengths import compare
from cluster.drill.reconciliation import balance, damaged_checkpoints, read_reconciliation, updates_recorded
from cluster.drill.record import Check, Record, RecoveredFault, episode_checks
from cluster.drill.replay_clients import ReplayClients
from cluster.drill.settings import RECOVERY_TIMEOUT_S, STOPPED_S, Engine, Server, drill_config
from cluster.drill.training_process import DrillFailedError, TrainingProcess, runs
from cluster.errors import RunError
from cluster.runs.folder import RunFolder
from cluster.runs.restarts import restarts
from cluster.runtime.replay.servers import replay_servers
from services.inference.vllm_backend.startup import vllm_installed
from services.settings import RedisSettings

FIRST_UPDATE_S = 600.0  # loading included, on a machine that is busy
PAUSE_S = (0.2, 4.0)  # between two faults: shortest, longest
LAST_UPDATES = 2  # made undisturbed at the end
UNDISTURBED_TIMEOUT_S = 7200.0  # for the training without faults

Notify = Callable[[str], None]  # called with every stage


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of a drill."""

    faults: int
    seed: int
    run_dir: Path
    engine: Engine
    server: Server = "embedded"
    only: tuple[str, ...] = ()  # kinds; none: all
    compares: bool = True  # whether it also trains without faults, and compares the lengths of the games
    config: str | None = None  # what is trained; None: the shipped smoke with longer games
    processes: int | None = None  # of the learner; None: as configured
    servers: int = 1  # of the replay

    def training_config(self, server_urls: Sequence[str] = ()) -> Config:
        """What is trained, with external replay servers if their addresses are given."""
        return drill_config(self.engine, self.faults, self.seed, server_urls, self.config, self.processes, self.servers)

    @property
    def faults_known(self) -> Mapping[str, Fault]:
        """All kinds that this drill can cause."""
        return faults_of(self.engine, self.server, self.training_config().learner.processes)

    @property
    def kinds(self) -> list[str]:
        """The kinds of faults, in the order of their table."""
        return [name for name in self.faults_known if not self.only or name in self.only]

    def check(self) -> None:
        """Raise RunError if a kind of fault does not exist, vLLM is not installed, or the folder has a run already."""
        known = list(self.faults_known)
        for name in self.only:
            if name not in known:
                raise RunError(
                    f"no fault is called {name!r} with the {self.engine} engine and the {self.server} replay server; "
                    f"there are {', '.join(known)}"
                )
        if self.engine == "vllm" and not vllm_installed():
            raise RunError("vLLM is not installed: `make vllm` brings its CPU build")
        if RunFolder(self.run_dir).begun:
            raise RunError(f"{self.run_dir} already holds a run; choose another --run-dir, or remove it")


def drill(plan: Plan, record: Record, notify: Notify) -> None:
    """Run a drill, fill ``record`` during it, and end every process that it started.

    Raises DrillFailedError if the run did not recover or a check failed.
    """
    plan.run_dir.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        external = [
            stack.enter_context(ExternalServer(plan.run_dir / f"external-redis-{number}"))
            for number in range(1, plan.servers + 1 if plan.server == "external" else 1)
        ]
        config = plan.training_config([each.url for each in external])
        training = training_of(config, plan.run_dir)
        stack.callback(training.close)
        context = DrillContext(
            training,
            RunFolder(plan.run_dir),
            random.Random(plan.seed),
            config.learner.checkpoint_every,
            config.rollout.num_generations,
            STOPPED_S,
            config.redis,
            external,
        )
        try:
            _carry_out(plan, config, context, record, notify)
        except DrillFailedError as error:
            record.failure = str(error)
            raise


def _carry_out(plan: Plan, config: Config, context: DrillContext, record: Record, notify: Notify) -> None:
    training, rng = context.training, context.rng
    kinds = draw(plan.kinds, plan.faults, rng)
    notify("starting the training")
    training.start()
    training.wait(lambda: training.update >= 1, "first update", FIRST_UPDATE_S)
    for kind in kinds:
        time.sleep(rng.uniform(*PAUSE_S))
        fault = plan.faults_known[kind]
        notify(f"{kind}: {fault.does}")
        record.recovered.append(recover(kind, fault, context, record))
    notify("letting the run finish")
    finish(training, record)
    undisturbed = None
    if plan.compares:
        notify("training as long without faults")
        undisturbed = train_undisturbed(plan, training.update)
    notify("reconciling the episodes")
    check_run(config.redis, context, undisturbed, record)


def training_of(config: Config, run_dir: Path) -> TrainingProcess:
    """A training in ``run_dir``, not started yet."""
    run_dir.mkdir(parents=True, exist_ok=True)
    file = run_dir / "drill.toml"
    file.write_text(dump_config(config), encoding="utf-8")
    file.chmod(0o600)  # it may hold a server's password
    return TrainingProcess(run_dir, file, run_dir / "drill.log")


def train_undisturbed(plan: Plan, updates: int) -> Path:
    """Make the same training without faults; returns its folder. Raises DrillFailedError if it fails."""
    training = training_of(plan.training_config(), plan.run_dir / "undisturbed")
    try:
        training.start([f"learner.updates={updates}"])
        status = training.finish(UNDISTURBED_TIMEOUT_S)
    finally:
        training.close()
    if status:
        raise DrillFailedError(f"the training without faults ended with status {status}: {training.last_line()}")
    return training.run_dir


def recover(kind: str, fault: Fault, context: DrillContext, record: Record) -> RecoveredFault:
    """Cause a fault and wait for the recovery. Raises DrillFailedError unless the run recovers in the expected way."""
    training = context.training
    update, before, driver = training.update, len(restarts(context.folder.path)), training.driver
    at_s, start = record.elapsed_s, time.monotonic()
    context.note_stored()
    done = fault.cause(context)
    caused = f"{kind} ({done.what})"

    def reacted() -> bool:
        left = any(map(runs, done.victims))
        return not left and (fault.reaction != "starts itself again" or len(restarts(context.folder.path)) > before)

    def set_aside() -> bool:
        with context.store() as store:
            return store.counters().get("poison", 0) >= len(context.damaged)

    training.wait(reacted, f"reaction to {caused}", RECOVERY_TIMEOUT_S)
    newest = max(update, training.update)
    training.wait(
        lambda: training.update >= newest + fault.updates, f"further update after {caused}", RECOVERY_TIMEOUT_S
    )
    if done.poison:
        training.wait(set_aside, f"setting aside of {caused}", RECOVERY_TIMEOUT_S)
    reaction = _reaction(training.driver != driver, len(restarts(context.folder.path)) - before)
    if reaction != fault.reaction:
        raise DrillFailedError(f"after {caused} the run {reaction}, expected: it {fault.reaction}")
    recovered_s = round(time.monotonic() - start, 1)
    return RecoveredFault(kind, done.what, round(at_s, 1), update, reaction, recovered_s, training.update, done.ending)


def finish(training: TrainingProcess, record: Record) -> None:
    """Stop the run as a job manager does, resume it to its end, and check that no process is left.

    Raises DrillFailedError if it did not stop or end as expected.
    """
    end_run(training, signal.SIGTERM, to_all=False)
    training.start([f"learner.updates={training.update + LAST_UPDATES}"])
    status = training.finish(RECOVERY_TIMEOUT_S)
    if status:
        raise DrillFailedError(f"the run's end has status {status}")
    left = training.survivors()
    record.checks.append(Check("no process is left behind", not left, "; ".join(left) or "none is"))


def check_run(redis: RedisSettings, context: DrillContext, undisturbed: Path | None, record: Record) -> None:
    """Check episodes, checkpoints and updates of the finished run; its games' lengths if another was ``undisturbed``.

    Raises DrillFailedError if a check failed.
    """
    folder = context.folder
    with replay_servers(redis, folder.redis) as urls, ReplayClients(urls, folder.run_id) as store:
        reconciliation = read_reconciliation(folder.path, store, context.seen_stored)
        waiting = store.waiting().values()
    record.checks += episode_checks(reconciliation, balance(reconciliation), len(context.damaged))
    damaged, lines = damaged_checkpoints(folder), updates_recorded(folder)
    record.checks += [
        Check("every checkpoint is whole", not damaged, f"damaged: {', '.join(damaged) or 'none'}"),
        Check(
            "every update is recorded once",
            lines == list(range(1, context.training.update + 1)),
            f"{context.training.update} updates, {len(lines)} lines of {len(set(lines))} updates",
        ),
    ]
    if undisturbed is not None:
        lengths = compare(folder.path, waiting, undisturbed)
        record.lengths = asdict(lengths)
        record.checks.append(lengths.check())
    failed = [check for check in record.checks if not check.passed]
    if failed:
        raise DrillFailedError("; ".join(f"failed: {check.text} ({check.found})" for check in failed))


def _reaction(started_again: bool, restarted: int) -> Reaction:
    if started_again:
        return "is started again"
    return "starts itself again" if restarted else "goes on"
