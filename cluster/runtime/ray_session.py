"""The machine a run stands on: memory check, Ray, and the Redis-protocol server."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote, urlsplit, urlunsplit

import psutil

from cluster.configs.schema import Config
from cluster.errors import LateError, LostError, RunError
from cluster.runs.folder import RunFolder
from cluster.runtime.learner_memory import SMALL_VOCABULARY, learner_estimate, policy_size
from cluster.runtime.orphan_reaper import guarded
from cluster.runtime.placement import cpus_asked
from cluster.runtime.redis_clients import redis_buffer
from services.replay.buffer import ServerLostError
from services.replay.server.embedded import EmbeddedServer

GIB = 1 << 30
CONNECT_TIMEOUT_S = 5.0
PASSWORD_VARIABLE = "ENTENTE_REDIS_PASSWORD"  # noqa: S105  (the variable's name)
# Resident memory measured on Linux x86-64 with the CPU build of torch.
DRIVER_AND_RAY_BYTES = int(1.2 * GIB)
WORKER_BYTES = int(0.6 * GIB)
VLLM_BYTES = int(0.4 * GIB)  # its modules and smallest cache
GPU_WORKER_BYTES = int(3 * GIB)  # an engine that computes on a GPU: torch with CUDA and vLLM in one or two processes
OBJECT_STORE_BYTES = 256 << 20


def needed_bytes(config: Config, parameters: int) -> int:
    """A lower estimate of the memory a run needs on one machine: processes, weights, optimizer and activations.

    Args:
        config: of the run.
        parameters: of the small policy; those of ``policy.path`` are counted from its ``config.json``.
    """
    estimate = learner_estimate(config, parameters)
    # On a GPU only what lies here between updates, and the copies on their way to engines and disk.
    here = estimate.weights + estimate.moments + estimate.reference + estimate.publishing
    learner = WORKER_BYTES + (here if config.learner.gpus else estimate.total)
    shape, parameters = policy_size(config.policy, parameters)
    cache_row = 2 * shape.layers * shape.key_value * 4 * config.policy.context_length
    rollout = WORKER_BYTES + 2 * 4 * parameters + cache_row * config.inference.max_concurrent_decisions
    if config.inference.engine == "vllm":
        rollout += VLLM_BYTES
    if config.rollout.gpus_per_actor:
        rollout = GPU_WORKER_BYTES + 2 * parameters  # of a sleeping engine
    return DRIVER_AND_RAY_BYTES + OBJECT_STORE_BYTES + learner + config.rollout.actors * rollout


def available_bytes() -> int:
    """Memory this process may still take, container limits included."""
    available = int(psutil.virtual_memory().available)
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists():
        text = limit.read_text().strip()
        if text.isdigit():
            available = min(available, int(text) - int(used.read_text()))
    return available


def small_policy_parameters(config: Config, vocabulary: int = SMALL_VOCABULARY) -> int:
    """Parameters of the configured small policy (untied embeddings), for estimates before it is made."""
    policy = config.policy
    attention = 4 * policy.hidden_size * policy.hidden_size
    feed_forward = 3 * policy.hidden_size * policy.intermediate_size
    return policy.layers * (attention + feed_forward) + 2 * vocabulary * policy.hidden_size


def check_memory(config: Config) -> None:
    """Refuse a run that would be killed half-way.

    On a cluster nothing is refused here: its actors run elsewhere, and the learner looks for itself.

    Raises:
        RunError: says how much is needed, how much is there and what to lower.
    """
    if config.run.ray_address is not None:
        return
    parameters = small_policy_parameters(config)
    needed, available = needed_bytes(config, parameters), available_bytes()
    if needed > available:
        surgery = config.grouping.gradient_surgery != "none"
        raise RunError(
            f"not enough memory: this run needs about {needed / GIB:.1f} GiB, of which its learner "
            f"{learner_estimate(config, parameters)}, and {available / GIB:.1f} GiB are free; "
            f"lower rollout.actors ({config.rollout.actors}), inference.max_concurrent_decisions, "
            "learner.tokens_per_microbatch or the policy's size"
            + (", or set grouping.gradient_surgery = none" if surgery else "")
        )


@contextmanager
def ray_cluster(config: Config) -> Iterator[None]:
    """A local Ray, or the cluster that ``run.ray_address`` names; a local one ends with the block.

    Raises:
        LateError: the local Ray does not start.
        RunError: the cluster does not answer, or its machines could not all reach the run's replay server.
    """
    # Ray reads these when it is imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # What an actor raised after its run was lost is nobody's answer any more, and the run has said why in one line.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    import ray

    quiet_authentication()
    with guarded() if config.run.ray_address is None else nullcontext():
        try:
            if config.run.ray_address is None:
                _start_local(config)
            else:
                _attach(config.run.ray_address, embedded_replay=config.redis.url is None)
        except SystemExit:  # what Ray makes of SIGTERM while it starts
            raise KeyboardInterrupt from None
        stop_at_sigterm()  # Ray has put its own handler over it, which would end the process without saving
        try:
            yield
        finally:
            ray.shutdown()


def quiet_authentication() -> None:
    """Ray turns token authentication on by itself and says so at every start; that is what we want, quietly."""
    logging.getLogger("ray._private.authentication").setLevel(logging.ERROR)


def _start_local(config: Config) -> None:
    import ray

    try:
        ray.init(
            address="local",
            num_cpus=max(cpus_asked(config), os.cpu_count() or 1),
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
        )
    except Exception as error:  # Ray raises nothing more special where its processes do not come up
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise LateError(f"Ray did not start on this machine ({reason}); is it overloaded, or out of memory?") from error


def _attach(address: str, *, embedded_replay: bool) -> None:
    import ray

    check_reachable(address)
    try:
        ray.init(address=address, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RunError(
            f"no Ray cluster at {address} ({reason}); start one, or leave run.ray_address unset for a local one"
        ) from error
    machines = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    if embedded_replay and len(machines) > 1:
        raise RunError(
            f"the Ray cluster at {address} has {len(machines)} machines, and a replay server started here would listen "
            "on this one alone: set redis.url to a server that all of them reach"
        )


def stop_at_sigterm() -> None:
    """Let SIGTERM, which job managers send, stop this process like Ctrl-C."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def check_reachable(address: str) -> None:
    """Look whether somebody listens at a cluster's address; Ray itself waits for minutes where nobody does.

    Raises:
        RunError: nobody does, or it is no address.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto":
        return
    try:
        if not colon or not port.isdigit():
            raise OSError("it is not host:port")
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise RunError(
            f"no Ray cluster at {address} ({error}); start one, or leave run.ray_address unset for a local one"
        ) from None


def actor_variables(threads: int) -> dict[str, str]:
    """Environment variables of one actor: threads bounded, nothing fetched from a hub, freed memory kept.

    glibc hands the buffers of every forward pass back to the kernel and faults them in again; keeping them makes the
    torch engine about a fifth faster on a CPU. Other C libraries ignore these variables.
    """
    return {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "MALLOC_TOP_PAD_": str(64 << 20),
        "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
        "MALLOC_TRIM_THRESHOLD_": str(1 << 31),
    }


@contextmanager
def started_with(variables: Mapping[str, str]) -> Iterator[None]:
    """Environment variables of the processes that are started inside the block."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def actor_environment(threads: int, *, gpus: float = 0.0) -> dict[str, dict[str, str]]:
    """The same as a Ray runtime environment; an actor without GPUs sees none, one with GPUs those that Ray gives it."""
    hidden = {} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
    return {"env_vars": {**actor_variables(threads), **hidden}}


def with_password(url: str, password: str | None) -> str:
    """The URL with a password where it has none; so that no password needs to stand in a file or command line."""
    parts = urlsplit(url)
    if not password or parts.password is not None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:{quote(password, safe='')}@{host}"))


def external_url(config: Config) -> str | None:
    """Of the replay server that ``redis.url`` names, with the password of the environment; None where it names none."""
    url = config.redis.url
    return None if url is None else with_password(url, os.environ.get(PASSWORD_VARIABLE))


@contextmanager
def replay_server(config: Config, folder: RunFolder) -> Iterator[str]:
    """The URL of the replay server: the one ``redis.url`` names, or one started in the run folder.

    Raises:
        ReplayError: no server can be started, or the external one does not answer.
    """
    url = external_url(config)
    if url is not None:
        probe = redis_buffer(config, url, "probe")
        try:
            probe.stored_ids(["probe/0"])  # now, before anything is started
        finally:
            probe.close()
        yield url
        return
    folder.redis.mkdir(parents=True, exist_ok=True)
    server = EmbeddedServer.start(folder.redis)
    try:
        yield server.url
    finally:
        server.close()


def cause_of_death(error: Any) -> str:
    """Why an actor is dead, in a few words: what its constructor raised, or what Ray knows."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if getattr(error, "actor_init_failed", False):
        # The last line of the remote traceback is "package.module.SomeError: its message".
        return f"could not start: {lines[-1].partition(': ')[2] or lines[-1]}"
    return f"died ({lines[0] if lines else 'no reason given'})"


def loss_of(who: str, error: Any) -> RunError:
    """What the end of an actor is for its run: an accident, but not where its constructor refused.

    Args:
        who: has ended.
        error: Ray's.
    """
    if not getattr(error, "actor_init_failed", False):
        kind: type[RunError] = LostError
    else:
        kind = LateError if _lost_its_server(error) else RunError
    return kind(f"{who} {cause_of_death(error)}")


def _lost_its_server(error: Any) -> bool:
    """Whether an actor's constructor ended with the replay server; of its error Ray brings nothing but the text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return bool(lines) and lines[-1].partition(":")[0].rpartition(".")[2] == ServerLostError.__name__


def answer(ref: Any, timeout_s: float, who: str) -> Any:
    """What an actor answered.

    Raises:
        LateError: it gave no answer within ``timeout_s``.
        LostError: it died, or its answer was lost with the machine that held it.
        RunError: its constructor refused. What the method raised itself is raised as it was.
    """
    import ray
    from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

    try:
        return ray.get(ref, timeout=timeout_s)
    except GetTimeoutError:
        raise LateError(
            f"{who} did not answer within {timeout_s:.0f} s; look at its log in Ray's session folder"
        ) from None
    except RayActorError as error:
        raise loss_of(who, error) from None
    except RayTaskError as error:
        raise error.cause from None
    except RayError as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise LostError(f"{who} answered, but that was lost ({lines[0]})") from None
