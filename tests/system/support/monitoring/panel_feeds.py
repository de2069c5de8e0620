"""Real sources of metrics for a Prometheus: a whole run, and a learner, a pool and a league with the driver's recorder.

Each is a run with an exporter of its own; its name is that of its source in ``panel_sources``.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil
import redis
from aiohttp import web
from rich.console import Console

from cluster.actors.learner import LearnerWorker
from cluster.actors.messages import UpdateReport
from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from cluster.driver.metrics_recorder import MetricsRecorder
from cluster.runs.folder import RunFolder, last_update
from grpo_core.errors import DivergenceError
from grpo_core.types import Episode
from opponents.league.league import League
from services.environments.diplomacy.position import POWERS
from services.metrics.display.display import Display
from services.metrics.prometheus_exporter import Exporter
from services.replay.redis_store.buffer import RedisBuffer
from services.replay.server.embedded import EmbeddedServer
from tests.chat_models import save_chat_model
from tests.system.support.endpoint_thread import endpoint_in_a_thread, first_legal_orders
from tests.system.support.fake_players import Weights
from tests.system.support.fake_pool import PoolHarness, owned_by_the_dead
from tests.system.support.monitoring.panel_sources import LEARNED, NEGOTIATED, PLAYED
from tests.system.support.training_process import TrainingProcess
from tests.unit.grpo_core.support.cases import episode_of, ragged_turn
from tests.unit.opponents.league_cases import game, member, population_of
from tests.unit.services.inference.chat_endpoint.endpoint_server import Request, answer, refusal

Seen = Callable[..., object]  # waits until Prometheus has an expression; by default, that the run began

WITH_EVERYTHING = {
    "run.name": PLAYED,
    "game.until_year": "1901", "evaluation.until_year": "1901", "metrics.display": "false",
    "learner.updates": "9", "learner.checkpoint_every": "1", "learner.returns": "episode",
    "learner.top_up_episodes": "14", "learner.top_up_timeout_s": "30", "learner.beta": "0.02",
    "learner.decoupled": "true", "learner.importance_sampling_mode": "token_mask",
    "grouping.keys": "['country']", "grouping.group_weights": "performance", "grouping.gradient_surgery": "pcgrad",
    "alignment.weight": "0.1", "alignment.rows": "2",
    "inference.decoding": "free", "inference.max_completion_length": "32",
    "evaluation.games_per_country": "2", "evaluation.every": "4",
    "opponents.matchmaking": "curriculum", "opponents.curriculum": "['random', 'greedy']",
    "opponents.min_draw_probability": "0.2", "opponents.snapshot_every": "2", "opponents.max_members": "1",
    "opponents.members": '{ random = 1.0, greedy = 1.0, "remote:chat" = 1.0 }',
    "opponents.remotes.chat.model": "some-model", "opponents.remotes.chat.max_retries": "1",
    "opponents.remotes.chat.on_failure": "hold", "opponents.remotes.chat.price_per_million_prompt_tokens": "2.0",
}  # fmt: skip


WITH_PRESS = {
    "run.name": NEGOTIATED, "game.press_rounds": "1",
    "game.until_year": "1901", "evaluation.until_year": "1901", "metrics.display": "false",
    "learner.updates": "2", "evaluation.games_per_country": "1",
    "opponents.members": "{ honest = 1.0, breaker = 1.0 }",
}  # fmt: skip


@contextmanager
def server_with_a_limit(folder: Path) -> Iterator[EmbeddedServer]:
    """A real replay server with a maxmemory."""
    with EmbeddedServer.start(folder) as server:
        with redis.Redis.from_url(server.url) as client:
            client.config_set("maxmemory", 1 << 30)
        yield server


def unreliable() -> Callable[[Request], web.Response]:
    """The answers of a chat model that is often busy, sometimes refuses, and does not always give legal orders."""
    numbers = itertools.count()

    def respond(request: Request) -> web.Response:
        number = next(numbers)
        if number % 5 == 1:
            return refusal(503, "busy")
        if number % 7 == 2:
            return answer("nothing that is an order")
        if number % 11 == 3:
            return refusal(400, "not today")
        if number % 13 == 4:
            return web.json_response({"choices": [{"message": {"role": "assistant", "content": "A PAR H"}}]})
        return first_legal_orders(request)

    return respond


def play_a_run(folder: Path, server: EmbeddedServer, port: int) -> None:
    """A whole run; a rollout actor and then the learner are killed."""
    folder.mkdir()
    run = folder / "run"
    with endpoint_in_a_thread(unreliable()) as endpoint:
        settings = {
            **WITH_EVERYTHING, "metrics.port": str(port), "redis.url": server.url,
            "opponents.remotes.chat.base_url": endpoint.url,
        }  # fmt: skip
        arguments = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        with TrainingProcess(run, *arguments) as training:
            for updates, actor in ((2, "RolloutActor"), (5, "LearnerActor")):
                training.wait_until(lambda updates=updates: last_update(run) >= updates, f"update {updates}")
                _kill_one(training, actor)
            assert training.finish() == 0, training.output()


def play_with_press(folder: Path, port: int) -> None:
    """A whole run with letters."""
    folder.mkdir()
    settings = {**WITH_PRESS, "metrics.port": str(port)}
    arguments = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    with TrainingProcess(folder / "run", *arguments) as training:
        assert training.finish() == 0, training.output()


def _kill_one(training: TrainingProcess, actor: str) -> None:
    training.look()
    for process in training.family.values():
        with suppress(psutil.NoSuchProcess):
            if process.is_running() and actor in " ".join(process.cmdline()):
                process.kill()
                return
    raise AssertionError(f"no {actor} runs")


@contextmanager
def recording(folder: Path, exporter: Exporter, config: Config, seen: Seen) -> Iterator[MetricsRecorder]:
    """The driver's recorder of a run in training whose first values were scraped."""
    run = RunFolder(folder)
    folder.mkdir(exist_ok=True)
    with MetricsRecorder(config, run, Display(9, console=Console(file=io.StringIO())), None, exporter) as recorder:
        recorder.training_begins()
        seen()
        yield recorder


SMALL = (
    "learner.tokens_per_microbatch=1024",
    "rollout.num_generations=2", "learner.episodes_per_update=14", "learner.checkpoint_every=100",
    "learner.returns=episode", "learner.lr_warmup_updates=0", "learner.updates=9", "grouping.keys=['country']",
    "grouping.min_group_size=2", "policy.prompt=chat", "policy.context_length=4096",
    "inference.thinking_tokens=12",
)  # fmt: skip


def _episodes(version: int, number: int) -> list[Episode]:
    """A block of two games for each country, played under the policy ``version``."""
    out = []
    for index, power in enumerate(POWERS):
        for game_number in range(2):
            rng = np.random.default_rng([number, index, game_number])
            turn = ragged_turn(rng, thought=game_number, policy_version=version)
            name = f"{number}-{power}/{game_number}"
            outcome = dict.fromkeys(("centers", "solo", "draw", "top", "survived", "final_year", "phases"), 1.0)
            episode = episode_of((turn,), role=power, name=name, reward=float(rng.normal()))
            out.append(dataclasses.replace(episode, block_size=2, outcome=outcome))
    return out


def learn(folder: Path, server: EmbeddedServer, exporter: Exporter, seen: Seen) -> None:
    """A real learner of thoughts that gets episodes twice, too late and unreadable, and diverges after a resume."""
    thinking = (*SMALL, f"policy.path={save_chat_model(folder.with_name('chat'))}")
    config = load_config("smoke", thinking)
    with suppress(DivergenceError), recording(folder, exporter, config, seen) as recorder:
        with closing(_buffer(server)) as buffer:
            worker = LearnerWorker(config, str(folder), buffer, resume=False)
            for number in range(3):
                recorder.update(_update(worker, server, buffer, number), 1, 0, {}, {})
                seen(f'entente_updates_total{{run="$run"}} > {number}')  # an increase needs two values
            worker.checkpoint()
        diverging = load_config("smoke", [*thinking, "learner.learning_rate=1e30"])
        with closing(_buffer(server)) as buffer:
            _update(LearnerWorker(diverging, str(folder), buffer, resume=True), server, buffer, 3)
        raise AssertionError("a step of any length leaves a finite loss")


def _buffer(server: EmbeddedServer) -> RedisBuffer:
    return RedisBuffer(server.url, LEARNED, 60.0, 5.0)


def _update(worker: LearnerWorker, server: EmbeddedServer, buffer: RedisBuffer, number: int) -> UpdateReport:
    """An update from episodes of the first policy, of which one comes twice and one is no episode."""
    made = _episodes(0, number)
    buffer.append(made)
    buffer.append(made[:1])
    with redis.Redis.from_url(server.url) as client:
        client.xadd(f"entente:{LEARNED}:episodes:FRANCE", {"id": f"broken-{number}/0", "data": b"not an episode"})
    return worker.update(dict.fromkeys(POWERS, 1), 60.0)[0]


def supervise(folder: Path, exporter: Exporter, seen: Seen) -> None:
    """Real actors of Ray that do not take weights for every cause there is."""
    folder.mkdir(exist_ok=True)
    config = load_config("smoke", ("rollout.actors=2",))
    with recording(folder, exporter, config, seen) as recorder, PoolHarness(folder, swap_timeout_s=5.0) as harness:
        pool = harness.pool

        def until(failures: Mapping[str, int]) -> None:
            def failed() -> bool:  # both actors may fail between two looks
                return all(pool.swap_failures[cause] >= count for cause, count in failures.items())

            harness.wait(failed, str(failures))
            harness.wait(lambda: pool.ready == 2, "two actors")

        def record(version: int) -> None:
            recorder.workers(pool.ready, 2, pool.replacements_left)
            recorder.update(_report(version), pool.size, pool.restarts, pool.swap_failures, {})

        record(1)
        harness.broadcast(Weights(1, hang=frozenset({0}), refuse={1: 1}))
        until({"timed_out": 1, "refused": 1})
        harness.broadcast(Weights(2, hang=frozenset({1})))
        harness.wait(lambda: harness.has_logged("1 swap 2"), "a swap")
        os.kill(harness.pid(1), signal.SIGKILL)
        until({"died": 1})
        harness.republished = [Weights(3)]
        pool.broadcast(owned_by_the_dead(Weights(3)), 3)
        until({"lost": 1})
        os.kill(harness.pid(2), signal.SIGKILL)
        harness.broadcast(Weights(4))
        harness.wait(lambda: pool.restarts >= 3 and pool.ready == 2, "a third replacement")
        record(2)


def rate(folder: Path, exporter: Exporter, seen: Seen) -> None:
    """A real league whose learner wins until it is promoted."""
    folder.mkdir(exist_ok=True)
    config = load_config("smoke", ("opponents.promote_margin=1e-6", "opponents.promote_min_updates=1"))
    population = population_of(folder, member("random"))
    population.save()
    with (
        recording(folder, exporter, config, seen) as recorder,
        League(folder, population, config.opponents, world=config.world, num_generations=2, seed=0, version=0,
               resume=False) as league,
    ):  # fmt: skip
        recorder.update(_report(1), 1, 0, {}, league.updated(1))
        for index in range(40):
            block = league.block(index)
            league.record(block, [game(block, 18, {"bot/random": 2})], [])
        due = league.snapshot_due(1)
        assert due is not None, "a learner that always wins is not promoted"
        assert due.lead is not None
        league.change_members(1, due, lambda members: members.add(member("v1", "policy", version=1)))
        recorder.update(_report(2), 1, 0, {}, league.updated(2))


def _report(version: int) -> UpdateReport:
    """An update of which only the version matters."""
    return UpdateReport(
        version=version, metrics={}, roles={}, episodes=0, stale_episodes=0, tokens=0, busy_s=0.0,
        defective_orders=0, truncated=0, weight_bytes=0,
        buffer=dict.fromkeys(("waiting", "delivered", "bytes", "duplicates", "poison"), 0.0),
    )  # fmt: skip
