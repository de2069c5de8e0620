"""The training page: rollout actors play line-up blocks, the learner learns from them, its weights go back to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from cluster.actors.learner_group.failures import of_process
from cluster.actors.learner_group.peer_actor import LearnerPeerActor
from cluster.actors.messages import UpdateReport
from cluster.actors.ray_actors import LearnerActor, RolloutActor
from cluster.configs.schema import Config
from cluster.driver import evaluations
from cluster.driver.autoscaling import Scaling
from cluster.driver.block_schedule import BlockSchedule
from cluster.driver.heartbeat import HEARTBEAT_GROUP, Heartbeat, StallTimer
from cluster.driver.learner_update import UpdateCall
from cluster.driver.metrics_recorder import MetricsRecorder
from cluster.driver.metrics_server import MetricsServer
from cluster.driver.rollout_pool import RolloutPool
from cluster.errors import ControlServiceLostError, LateError, RunError, ServerAwayError
from cluster.imitation.warm_start import warm_start
from cluster.runs.counters import while_loading
from cluster.runs.folder import RunFolder, snapshot_files
from cluster.runs.imitation_report import ImitationTask
from cluster.runs.progress_bars import progress_bars
from cluster.runs.restarts import ACCIDENTS
from cluster.runtime.actor_env import LEARNER_RANK, actor_environment
from cluster.runtime.memory import check_memory, checkpoint_bytes
from cluster.runtime.placement import Placement, Slot, check_gpus, cpus_asked, gpus_asked, placed
from cluster.runtime.ray_calls import get_answer
from cluster.runtime.ray_session import ray_cluster
from cluster.runtime.replay.clients import population_mirror, replay_buffer
from cluster.runtime.replay.server_watch import ServerWatch
from cluster.runtime.replay.servers import replay_servers, watched
from cluster.runtime.stop_signals import ignore_further_signals, shielded
from grpo_core.checkpoints.folders import checkpoint_versions, passed_over
from opponents.league.league import League
from opponents.players.chat_players import add_members
from opponents.population.population import Population
from opponents.population.redis_mirror import PopulationMirror
from services.metrics.display.display import Display
from services.metrics.prometheus_exporter import Exporter
from services.metrics.trackers.registry import check_trackers
from services.replay.buffer import ServerLostError
from services.reports.run_report.run_report import write_report

POLL_S = 0.5  # the display and the time limits are updated this often
ANSWER_TIMEOUT_S = 60.0  # for the learner to answer without computing
SAVE_TIMEOUT_S = 60.0  # for the last checkpoint of an interrupted run, if its policy is small
SAVE_BYTES_PER_S = 50e6  # of a larger one: gathered, written, read again for its checksum and flushed to a slow disk
SAVE_ALONE_TIMEOUT_S = 6.0  # for the learner to save after Ray was lost, which ends its process soon


@dataclass(slots=True)
class TrainingRun:
    """What one process of a run works with."""

    config: Config
    folder: RunFolder
    learner: Any  # handle of the LearnerActor
    peers: Sequence[Any]  # handles of the learner's other processes
    pool: RolloutPool
    schedule: BlockSchedule
    league: League
    recorder: MetricsRecorder
    watch: ServerWatch
    version: int  # of the learner's newest weights

    @property
    def log(self) -> Callable[[str], None]:
        """Shows the user one line."""
        return self.recorder.display.log

    @property
    def take_timeout_s(self) -> float:
        """For the learner to get blocks from the buffer."""
        return self.config.redis.group_timeout_s + self.config.redis.answer_timeout_s


def save_timeout_s(config: Config) -> float:
    """Seconds for the last checkpoint of an interrupted run, without the wait for the replay buffer."""
    return max(SAVE_TIMEOUT_S, checkpoint_bytes(config) / SAVE_BYTES_PER_S)


def check_machine(config: Config) -> None:
    """Raise RunError if this machine lacks the GPUs or the memory for the run, before anything is started.

    Raises MetricsError if a tracker's library is not installed, another EntenteError if a file or a function that the
    world needs cannot be used; a cluster's nodes find that out themselves.
    """
    check_trackers(config.metrics.trackers)
    check_gpus(gpus_asked(config.rollout, config.learner), config.run.ray_address)
    check_memory(config)
    if config.run.ray_address is None:
        config.world.check_files(config.evaluation)


def train(config: Config, run_dir: Path, *, resume: bool = False, metrics: MetricsServer | None = None) -> RunFolder:
    """Train a policy in a folder that this process holds; returns after the last update and evaluation.

    ``metrics`` keeps the exporter until the run starts again in this process; None: it ends with this call.

    Raises RunError, ReplayError, CheckpointError or MetricsError with one line that says what to do. Nothing durable is
    lost, and the run continues with ``resume=True`` (after an accident ``cluster.runs.restarts`` does that). Raises
    KeyboardInterrupt after it has saved the learner's state.
    """
    folder = RunFolder(run_dir)
    with ExitStack() as stack:
        folder.open(config, resume=resume)
        with shielded():  # their threads
            display = stack.enter_context(Display(config.learner.updates, enabled=config.metrics.display))
            metrics = metrics or stack.enter_context(MetricsServer())
            # Before any actor starts, so that a taken port is reported at once.
            exporter = metrics.open(config.metrics, config.run.name, folder, display.log)
        if exporter is not None:
            exporter.record(0, while_loading(checkpoint_versions(folder.path), config.learner.updates, config.rollout))
        if config.imitation.wanted and not checkpoint_versions(folder.path):
            warm_start(ImitationTask.of(config), folder.imitated, display)
        run = set_up(config, folder, stack, display, exporter, resume)
        try:
            evaluate_due(run)
            learn(run)
            evaluate_due(run)
        except (KeyboardInterrupt, ServerAwayError):  # the learner saves without the server
            save_interrupted(run)
            raise
        except ControlServiceLostError:
            save_without_ray(run)
            raise
        except ServerLostError:
            try:
                run.watch.check()
            except ServerAwayError:  # no accident, after which the run would start again
                save_interrupted(run)
                raise
            raise
    with progress_bars() if config.metrics.display else nullcontext() as add_bar:
        write_report(
            folder.path,
            config.world.measured,
            type(config)().model_dump(mode="json"),
            add_bar,
            config.world.press_story,
        )
    return folder


def set_up(
    config: Config, folder: RunFolder, stack: ExitStack, display: Display, exporter: Exporter | None, resume: bool
) -> TrainingRun:
    """Start the replay server, Ray, the learner and the rollout actors; on resume, recover what earlier ones did."""
    display.stage("starting the replay server and Ray")
    redis_urls = stack.enter_context(replay_servers(config.redis, folder.redis, display.log if resume else None))
    watch = stack.enter_context(watched(config.redis, display.log))
    address, cpus = config.run.ray_address, cpus_asked(config.rollout, config.learner)
    stack.enter_context(ray_cluster(address, cpus, embedded_replay=not config.redis.external, notice=display.log))
    may_grow = address is not None
    placement = stack.enter_context(
        placed(config.rollout, config.learner, may_grow=may_grow, notice=display.log if may_grow else None)
    )
    display.stage("loading the policy")
    peers = start_peers(config, placement)
    # The learner itself waits so long for its other processes, and says which one did not come.
    start_timeout_s = config.rollout.start_timeout_s + (ANSWER_TIMEOUT_S if peers else 0.0)
    learner = start_learner(config, folder, placement, redis_urls, resume, peers)
    # On a cluster, a learner that is stopped but not killed would keep its successor out of the run.
    for process in (*peers, learner):
        stack.callback(ray.kill, process)
    first_weights = learner.publish.remote()
    if config.rollout.share_gpu_with_learner:
        # A starting engine measures how much of the GPU is free, so it waits until the learner has left the GPU.
        get_answer(learner.version.remote(), start_timeout_s, "the learner, starting,", watch.away_s)
    pool = start_rollouts(config, folder, placement, redis_urls, learner, watch)
    stack.callback(pool.close)
    version: int = get_answer(learner.version.remote(), start_timeout_s, "the learner, starting,", watch.away_s)
    recorder = stack.enter_context(MetricsRecorder(config, folder, display, version if resume else None, exporter))
    mirror = population_mirror(config.redis, config.opponents.mirror_mib, redis_urls, folder.run_id, patient=resume)
    stack.callback(mirror.close)
    population = open_population(config, folder, version, mirror)
    pool.wait_ready()
    pool.broadcast(first_weights, version)
    league = League(
        folder.path,
        population,
        config.opponents,
        world=config.world,
        num_generations=config.rollout.num_generations,
        seed=config.run.seed,
        version=version,
        resume=resume,
    )
    stack.enter_context(league)
    schedule = BlockSchedule(config.run.seed, config.world.roles, config.learner, config.rollout, league, version)
    run = TrainingRun(config, folder, learner, peers, pool, schedule, league, recorder, watch, version)
    if resume:
        recover(run, redis_urls)
    return run


def open_population(config: Config, folder: RunFolder, version: int, mirror: PopulationMirror) -> Population:
    """Open the population: the config's members in a new run; on resume, without snapshots of undone updates."""
    opponents, world = config.opponents, config.world
    started = folder.population.exists()
    mirror.clear()
    population = Population(folder.population, on_saved=mirror.publish)
    with population.transaction():
        if not started and world.has_opponents:
            add_members(population, opponents)
        population.remove_snapshots_after(version)
        population.advance_to(version)
    return population


def start_learner(
    config: Config,
    folder: RunFolder,
    placement: Placement,
    redis_urls: Sequence[str],
    resume: bool,
    peers: Sequence[Any],
) -> Any:
    """The handle of a new learner actor, which loads its model."""
    actor = _learner_process(LearnerActor, config, placement, 0)
    return actor.remote(config.model_dump_json(), str(folder.path), redis_urls, folder.run_id, resume, peers)


def start_peers(config: Config, placement: Placement) -> list[Any]:
    """The handles of the learner's processes after the first, by rank."""
    ranks = range(1, config.learner.processes)
    text = config.model_dump_json()
    return [_learner_process(LearnerPeerActor, config, placement, rank).remote(text, rank) for rank in ranks]


def _learner_process(kind: type, config: Config, placement: Placement, rank: int) -> Any:
    learner = config.learner
    environment = actor_environment(learner.threads, gpus=learner.gpus, shares=learner.processes > 1)
    environment["env_vars"][LEARNER_RANK] = str(rank)
    # Its concurrency group is a thread that answers heartbeats while another one learns.
    actor = ray.remote(concurrency_groups={HEARTBEAT_GROUP: 1})(kind)
    return actor.options(**placement.of_learner(rank), runtime_env=environment)


def start_rollouts(
    config: Config, folder: RunFolder, placement: Placement, redis_urls: Sequence[str], learner: Any, watch: ServerWatch
) -> RolloutPool:
    """A pool of new rollout actors; in a new run they import modules while the learner writes its first checkpoint.

    They all start from the first checkpoint, which is never pruned, so that a later replacement finds it too. Newer
    weights are swapped in before they play.
    """
    policy_folder = str(folder.checkpoints / str(next(iter(checkpoint_versions(folder.path)), 0)))
    environment = actor_environment(config.inference.threads, gpus=config.rollout.gpus_per_actor)
    arguments = (config.model_dump_json(), policy_folder, str(folder.population), redis_urls, folder.run_id)

    def spawn(slot: Slot) -> Any:
        options = {**placement.of_rollout(slot), "max_concurrency": 1000, "runtime_env": environment}
        # At the first start a server that does not answer is more likely out of the actor's reach than away.
        return ray.remote(RolloutActor).options(**options).remote(*arguments, folder.begun)

    # Publishing computes a probe; a shared GPU has no memory for that while an engine is awake.
    republish = None if config.rollout.share_gpu_with_learner else learner.publish.remote
    further = None if config.rollout.max_actors is None else placement.further
    return RolloutPool(spawn, config.rollout, republish, further, watch.away_s)


def recover(run: TrainingRun, redis_urls: Sequence[str]) -> None:
    """Take over what earlier processes of this run played and learned."""
    config, folder, version = run.config, run.folder, run.version
    for damaged in passed_over(folder.path, version):
        run.log(f"checkpoint {damaged} is not whole, or altered: passed over for checkpoint {version}")
    report: UpdateReport | None = get_answer(run.learner.last_report.remote(), ANSWER_TIMEOUT_S, "the learner")
    with closing(replay_buffer(config.redis, redis_urls, config.world.roles, folder.run_id, patient=True)) as buffer:
        run.schedule.recover(buffer, {} if report is None else report.topped_up)
    change_population(run)  # the last process may have crashed before it did
    run.recorder.catch_up(report, run.pool.size, run.league.updated(version))
    run.log(f"resumed at version {version}; {run.schedule.started_episodes} episodes were already played")


def learn(run: TrainingRun) -> None:
    """The loop of updates."""
    config, pool, recorder = run.config, run.pool, run.recorder
    may_learn = pool.rest if config.rollout.share_gpu_with_learner else None
    call = UpdateCall(config.learner, run.take_timeout_s, run.learner, run.schedule, run.log, may_learn=may_learn)
    scaling = Scaling(config.rollout, config.learner.episodes_per_update, pool, run.log)
    heartbeats = [
        Heartbeat(
            process.heartbeat.options(concurrency_group=HEARTBEAT_GROUP).remote,
            config.run.silence_timeout_s,
            away_s=run.watch.away_s,
            who=of_process(rank) if run.peers else "the learner",
        )
        for rank, process in enumerate((run.learner, *run.peers))
    ]
    stall_timer = StallTimer(config.rollout.update_timeout_s, away_s=run.watch.away_s)
    recorder.training_begins()
    while run.version < config.learner.updates:
        # 1. Start as many blocks as admission and the actors' free seats allow.
        start_blocks(run)
        # 2. Learn as soon as the buffer holds this update's blocks (and a shared GPU is free).
        call.proceed(run.version)
        # 3. Wait for the first event.
        both_busy, wait_start = bool(call.waits_for) and pool.games_in_flight > 0, time.monotonic()
        events = pool.poll(call.waits_for, POLL_S)
        if both_busy:
            recorder.overlapped(time.monotonic() - wait_start)
        for heartbeat in heartbeats:
            heartbeat.check()
        run.watch.check()
        scaling.observe(learning=bool(call.waits_for), updated=bool(events.other))
        recorder.workers(pool.ready, scaling.wanted, pool.replacements_left)
        for played in events.blocks:
            run.schedule.finished(played.block)
            recorder.played(played.games)
            events.notices.extend(run.league.record(played.block, played.scores, played.outcomes))
        recorder.swaps(events.swap_seconds)
        for notice in events.notices:
            run.log(notice)
        # 4. After an update, send its weights to every engine (which wakes resting ones) and record its metrics.
        if events.other and (update := call.finish(run.version)):
            evaluated = finish_update(run, *update)
            stall_timer.restart()
            if evaluated:
                scaling.restart()
        elif stall_timer.over():
            raise LateError(
                f"no update for {stall_timer.limit_s:.0f} s (rollout.update_timeout_s), version {run.version}: "
                + ("the learner is busy" if call.waits_for else f"waiting for blocks of {run.schedule.missing()}")
                + f", {pool.games_in_flight} games in flight on {pool.size} actors"
            )
    recorder.training_ends()


def start_blocks(run: TrainingRun) -> None:
    """Start as many blocks as there is room for; first the extra blocks that the update under way waits for."""
    schedule, pool, games = run.schedule, run.pool, run.config.rollout.num_generations
    while schedule.extra_wanted() and pool.has_room(games):
        block = schedule.next_extra_block()
        pool.submit(block, run.league.members(block))
    while schedule.wanted() and schedule.admits() and pool.has_room(games):
        block = schedule.next_block()
        pool.submit(block, run.league.members(block))


def finish_update(run: TrainingRun, report: UpdateReport, weights: Any) -> bool:
    """Broadcast and record an update, change the population, and evaluate if it is time; returns whether it was."""
    pool, recorder = run.pool, run.recorder
    pool.broadcast(weights, report.version)
    run.version = report.version
    recorder.engine(pool.stats())
    change_population(run)
    recorder.update(report, pool.size, pool.restarts, pool.swap_failures, run.league.updated(run.version))
    if run.version >= run.config.learner.updates or not evaluate_due(run):  # the last ones come after the training
        return False
    recorder.display.stage("training")
    return True


def change_population(run: TrainingRun) -> None:
    """Let the league take in or retire members after an update; the learner writes a snapshot if it joins."""
    weights = run.folder.path / "population" / f"v{run.version}.safetensors"
    specialists = run.config.world.roles if run.config.policy.specialists else ()

    def add(population: Population) -> None:
        for country, file in snapshot_files(weights, specialists).items():
            population.add_snapshot(file, version=run.version, config_digest=run.config.digest, country=country)

    snapshot = run.league.snapshot_due(run.version)
    if snapshot is not None:
        limit_s = run.config.rollout.update_timeout_s  # as of a checkpoint, which is written within an update
        get_answer(run.learner.snapshot.remote(str(weights)), limit_s, "the learner, writing a snapshot,")
    for notice in run.league.change_members(run.version, snapshot, add):
        run.log(notice)


def evaluate_due(run: TrainingRun) -> bool:
    """Make the evaluations due at this version that are not recorded; return whether there were any."""
    return evaluations.evaluate_due(run.config, run.folder, run.pool, run.recorder, run.version)


def save_interrupted(run: TrainingRun) -> None:
    """Save a last checkpoint within a bounded time; further signals are ignored so that they do not cut it short."""
    ignore_further_signals()
    limit_s = save_timeout_s(run.config) + run.take_timeout_s
    run.recorder.display.stage(f"stopping: saving a checkpoint (at most {limit_s:.0f} s)")
    _hurry(run)
    try:
        get_answer(run.learner.checkpoint.remote(), limit_s, "the learner, saving,")
    except ACCIDENTS as error:
        raise RunError(f"{error}; the last checkpoint is intact: go on with --resume") from None


def _hurry(run: TrainingRun) -> None:
    """Let the learner save without waiting for the replay server, which may end together with the run."""
    run.learner.hurry.options(concurrency_group=HEARTBEAT_GROUP).remote()


def save_without_ray(run: TrainingRun) -> None:
    """Ask the learner, which Ray's loss has not ended yet, to save; without an answer the last checkpoint counts."""
    run.recorder.display.stage("Ray is gone: saving a checkpoint")
    _hurry(run)
    ray.wait([run.learner.checkpoint.remote()], timeout=SAVE_ALONE_TIMEOUT_S)
