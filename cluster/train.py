"""The whole flow on one page: rollouts play line-up blocks, the learner learns from them, weights go back.

entente train cluster/configs/laptop.toml
python -m cluster.train cluster/configs/laptop.toml     (the same, for job submission)
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ray

from cluster.actors.messages import UpdateReport
from cluster.actors.ray_actors import LearnerActor, RolloutActor
from cluster.configs.schema import Config
from cluster.driver.admission import Admission
from cluster.driver.autoscaling import Scaling
from cluster.driver.block_schedule import BlockSchedule
from cluster.driver.heartbeat import GROUP, Heartbeat
from cluster.driver.metrics_recorder import MetricsRecorder
from cluster.driver.rollout_pool import WorkerPool
from cluster.driver.stall_timer import StallTimer
from cluster.driver.update_call import UpdateCall
from cluster.errors import LateError, RunError
from cluster.evaluation.evaluation_games import evaluation_games, summarize
from cluster.imitation.warm_start import evaluate_untrained, warm_start
from cluster.runs.counters import while_loading
from cluster.runs.folder import RunFolder, snapshot_files
from cluster.runs.recovery import ACCIDENTS
from cluster.runtime.actor_env import actor_environment
from cluster.runtime.memory import check_memory
from cluster.runtime.placement import Placement, Slot, check_gpus, placed
from cluster.runtime.ray_calls import answer
from cluster.runtime.ray_session import ray_cluster
from cluster.runtime.redis_clients import population_mirror, redis_buffer
from cluster.runtime.replay_server import replay_server
from grpo_core.checkpoints.folders import checkpoint_versions, passed_over
from opponents.league.league import League
from opponents.players.chat_players import add_members
from opponents.population.population import Population
from opponents.population.redis_mirror import PopulationMirror
from services.inference.engine import LEARNER
from services.metrics.display.display import Display
from services.metrics.prometheus_exporter import Exporter
from services.reports.run_report.run_report import write_report

POLL_S = 0.5  # the display and the time limits are looked at this often
SAVE_TIMEOUT_S = 60.0  # for the last checkpoint of an interrupted run


def train(config: Config, run_dir: Path, *, resume: bool = False) -> RunFolder:
    """Train a policy; returns when the last update and evaluation are done.

    Raises:
        RunError, ReplayError, CheckpointError, MetricsError: one line that says what to do; nothing durable is lost
            and the run goes on with ``resume=True`` (after an accident by itself: ``cluster.runs.recovery``).
        KeyboardInterrupt: after the learner's state was saved.
    """
    folder = RunFolder(run_dir)
    check_gpus(config)
    check_memory(config)
    with ExitStack() as stack:
        stack.enter_context(folder.held())
        folder.open(config, resume=resume)
        display = stack.enter_context(Display(config.learner.updates, enabled=config.metrics.display))
        exporter = None
        if config.metrics.port is not None:
            # Here, so that a taken port is known before anything is started.
            exporter = Exporter(config.metrics.port, config.metrics.host, config.run.name)
            stack.callback(exporter.close)
            exporter.record(0, while_loading(config, checkpoint_versions(folder.path)))
        warm = config.imitation.wanted
        if warm and not checkpoint_versions(folder.path):
            warm_start(config, folder, display)
        display.stage("starting the replay server and Ray")
        redis_url = stack.enter_context(replay_server(config, folder))
        stack.enter_context(ray_cluster(config))
        places = stack.enter_context(placed(config))
        display.stage("loading the policy")
        learner = start_learner(config, folder, places, redis_url, resume)
        stack.callback(ray.kill, learner)  # a stopped one would hold the run against its successor on a cluster
        first_weights = learner.publish.remote()
        if config.rollout.share_gpu_with_learner:
            # An engine that starts measures how much of the GPU is free: not before the learner has left it.
            answer(learner.version.remote(), config.rollout.start_timeout_s, "the learner, starting,")
        pool = start_rollouts(config, folder, places, redis_url, learner)
        stack.callback(pool.close)
        version: int = answer(learner.version.remote(), config.rollout.start_timeout_s, "the learner, starting,")
        progress = stack.enter_context(MetricsRecorder(config, folder, display, version if resume else None, exporter))
        mirror = population_mirror(config, redis_url, folder.run_id)
        stack.callback(mirror.close)
        population = open_population(config, folder, version, mirror)
        pool.wait_ready()
        pool.broadcast(first_weights, version)
        league = stack.enter_context(open_league(config, folder, population, version, resume))
        ledger = BlockSchedule(config, league, version)
        if resume:
            for damaged in passed_over(folder.path, version):
                display.log(f"checkpoint {damaged} is not whole, or altered: passed over for checkpoint {version}")
            report: UpdateReport | None = answer(learner.last_report.remote(), SAVE_TIMEOUT_S, "the learner")
            recover(ledger, config, redis_url, folder.run_id, {} if report is None else report.topped_up)
            renew_population(config, folder, league, learner, version, display.log)  # a crash may have come before it
            progress.catch_up(report, pool.size, league.updated(version))
            display.log(f"resumed at version {version}; {ledger.started_episodes} episodes were already played")
        try:
            if version == 0:
                if warm:
                    evaluate_untrained(config, folder, progress)
                for against in config.evaluation.against:
                    evaluate(config, folder, pool, progress, against, "imitated" if warm else "untrained", version)
            version = learn(config, folder, learner, pool, ledger, league, progress, version)
            for against in dict.fromkeys((*config.evaluation.against, *config.evaluation.final_against)):
                evaluate(config, folder, pool, progress, against, "trained", version)
        except KeyboardInterrupt:
            # Asked once is enough; what follows is bounded and must not be cut short.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            limit = SAVE_TIMEOUT_S + config.redis.group_timeout_s + config.redis.answer_timeout_s
            display.stage(f"stopping: saving a checkpoint (at most {limit:.0f} s)")
            try:
                answer(learner.checkpoint.remote(), limit, "the learner, saving,")
            except ACCIDENTS as error:
                raise RunError(f"{error}; the last checkpoint is intact: go on with --resume") from None
            raise
    write_report(folder.path, Config().model_dump(mode="json"))
    return folder


def start_learner(config: Config, folder: RunFolder, places: Placement, redis_url: str, resume: bool) -> Any:
    """The learner actor, loading."""
    environment = actor_environment(config.learner.threads, gpus=config.learner.gpus)
    beside = ray.remote(concurrency_groups={GROUP: 1})(LearnerActor)  # a thread that says that it lives
    actor = beside.options(**places.of_learner(), runtime_env=environment)
    return actor.remote(config.model_dump_json(), str(folder.path), redis_url, folder.run_id, resume)


def start_rollouts(config: Config, folder: RunFolder, places: Placement, redis_url: str, learner: Any) -> WorkerPool:
    """The rollout actors, loading; those of a new run load their modules while the learner writes its first checkpoint.

    That checkpoint is never pruned, so a later replacement finds it too; weights are swapped in before play.
    """
    policy_folder = str(folder.checkpoints / str(next(iter(checkpoint_versions(folder.path)), 0)))
    environment = actor_environment(config.inference.threads, gpus=config.rollout.gpus_per_actor)
    arguments = (config.model_dump_json(), policy_folder, str(folder.population), redis_url, folder.run_id)

    def spawn(slot: Slot) -> Any:
        options = {**places.of_rollout(slot), "max_concurrency": 1000, "runtime_env": environment}
        return ray.remote(RolloutActor).options(**options).remote(*arguments)

    # While an engine is awake there is no room on a shared GPU to compute what is published with the weights.
    republish = None if config.rollout.share_gpu_with_learner else learner.publish.remote
    return WorkerPool(spawn, config.rollout, republish, None if config.rollout.max_actors is None else places.further)


def learn(
    config: Config,
    folder: RunFolder,
    learner: Any,
    pool: WorkerPool,
    ledger: BlockSchedule,
    league: League,
    progress: MetricsRecorder,
    version: int,
) -> int:
    """The loop of updates; returns the last version."""
    admission = Admission(config.learner.episodes_per_update, config.rollout.max_staleness)
    games = config.rollout.num_generations
    shared = config.rollout.share_gpu_with_learner
    call = UpdateCall(config, learner, ledger, progress.display.log, may_learn=pool.rest if shared else None)
    scaling = Scaling(config, pool, progress.display.log)
    pulse = Heartbeat(learner.beat.options(concurrency_group=GROUP).remote, config.run.silence_timeout_s)
    patience = StallTimer(config.rollout.update_timeout_s)  # with an update
    progress.training_begins()
    while version < config.learner.updates:
        # 1. Start as many blocks as admission and the actors' seats allow; what an update waits for comes first.
        while ledger.extra_wanted() and pool.has_room(games):
            block = ledger.next_extra_block()
            pool.start(block, league.members(block))
        while ledger.wanted() and admission.admits(version, ledger.started_episodes, games) and pool.has_room(games):
            block = ledger.next_block()
            pool.start(block, league.members(block))
        # 2. Learn as soon as this update's blocks lie in the buffer (and a shared GPU is free).
        call.proceed(version)
        # 3. Wait for whatever comes first.
        both_busy, waits_since = bool(call.waits_for) and pool.games_in_flight > 0, time.monotonic()
        events = pool.poll(call.waits_for, POLL_S)
        if both_busy:
            progress.overlapped(time.monotonic() - waits_since)
        pulse.look()
        scaling.look(learning=bool(call.waits_for), updated=bool(events.other))
        progress.workers(pool.able, scaling.wanted, pool.replacements_left)
        for played in events.blocks:
            ledger.finished(played)
            progress.block(played)
            events.notices.extend(league.record(played.block, played.scores))
        progress.swaps(events.swap_seconds)
        for notice in events.notices:
            progress.display.log(notice)
        # 4. A finished update: its weights to every engine (which wakes those that rest), its numbers to the record.
        if events.other and (update := call.answered(version)):
            report, weights = update
            pool.broadcast(weights, report.version)
            version = report.version
            patience.restart()
            progress.engine(pool.stats())
            renew_population(config, folder, league, learner, version, progress.display.log)
            progress.update(report, pool.size, pool.restarts, pool.swap_failures, league.updated(version))
            every = config.evaluation.every
            if every and version % every == 0 and version < config.learner.updates:
                for against in config.evaluation.against:
                    evaluate(config, folder, pool, progress, against, f"v{version}", version)
                progress.display.stage("training")
                scaling.restart()
                patience.restart()
        elif patience.over():
            raise LateError(
                f"no update for {patience.limit_s:.0f} s (rollout.update_timeout_s), version {version}: "
                + ("the learner is busy" if call.waits_for else f"waiting for blocks of {ledger.missing()}")
                + f", {pool.games_in_flight} games in flight on {pool.size} actors"
            )
    progress.training_ends()
    return version


def evaluate(
    config: Config,
    folder: RunFolder,
    pool: WorkerPool,
    progress: MetricsRecorder,
    against: str,
    label: str,
    version: int,
) -> None:
    """Measure the policy against six of one bot, all countries alike; one game of each country is kept."""
    settings = config.evaluation
    saved = folder.games / f"{label}-{against}"
    saved.mkdir(parents=True, exist_ok=True)
    games = evaluation_games(LEARNER, against, settings.games_per_country, settings.until_year, config.run.seed, saved)
    progress.display.stage(f"evaluating the {label} policy against six {against}", total=len(games))
    start = time.monotonic()
    results = pool.evaluate(games, progress.display.advance, config.rollout.block_timeout_s)
    row = summarize(results, checkpoint=f"checkpoints/{version}", against=against, until_year=settings.until_year)
    progress.evaluation(label, row, time.monotonic() - start)


def open_population(config: Config, folder: RunFolder, version: int, mirror: PopulationMirror) -> Population:
    """The run's population: on disk, less the snapshots of updates that a crash undid; else the config's members."""
    started = folder.population.exists()
    mirror.forget()
    population = Population(folder.population, published=mirror.publish)
    with population.changing():
        if not started:
            add_members(population, config.opponents)
        population.forget_after(version)
        population.reached(version)
    return population


def open_league(config: Config, folder: RunFolder, population: Population, version: int, resume: bool) -> League:
    """Whom line-ups are drawn from, and what an earlier process remembers of results."""
    return League(
        folder.path,
        population,
        config.opponents,
        num_generations=config.rollout.num_generations,
        until_year=config.game.until_year,
        seed=config.run.seed,
        version=version,
        resume=resume,
    )


def renew_population(
    config: Config, folder: RunFolder, league: League, learner: Any, version: int, log: Callable[[str], None]
) -> None:
    """At an update: see what others changed; the learner joins, and others retire, where the league says so."""
    weights = folder.path / "population" / f"v{version}.safetensors"

    def add(population: Population) -> None:
        for country, file in snapshot_files(weights, config).items():
            population.add_snapshot(file, version=version, config_digest=config.digest, country=country)

    joining = league.joining(version)
    if joining is not None:
        answer(learner.snapshot.remote(str(weights)), SAVE_TIMEOUT_S, "the learner, writing a snapshot,")
    for notice in league.renew(version, joining, add):
        log(notice)


def recover(ledger: BlockSchedule, config: Config, redis_url: str, run_id: str, topped_up: Mapping[str, int]) -> None:
    """Find out what an earlier process played."""
    buffer = redis_buffer(config, redis_url, run_id)
    try:
        ledger.recover(buffer, topped_up)
    finally:
        buffer.close()


if __name__ == "__main__":
    from cluster.cli.app import main

    main(prefix=["train"])
