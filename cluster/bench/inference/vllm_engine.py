"""vLLM as rollout actors have it on a CPU: its rate, its weight swaps, and what is left of an actor's time.

Beside it, in the same run: the torch engine, ``transformers.generate`` under the same masks, and a plain copy of the
same weights.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from cluster.bench.figure import Figure, MissingRequirementError
from cluster.bench.inference.actor_process import ActorProcess, actor_process
from cluster.bench.inference.vllm_hosts import EngineHost, Kind, Load, PlainHost, Played, Tables, Wrote
from cluster.bench.inference.vllm_models import (
    WEIGHTS_FILE,
    LargeShape,
    Swappable,
    large_policy,
    requests,
    small_policy_folder,
    swappable,
)
from cluster.runtime.memory import available_bytes
from services.inference.vllm_backend.startup import vllm_installed

GOAL_OUTSIDE = 20.0  # per cent of an actor's time
GENERATE, TORCH, COPY = "transformers.generate, same masks", "torch engine", "load_state_dict of the same tensors"
ENGINES: dict[Kind, str] = {
    "torch": "torch engine",
    "actor": "vLLM in the actor's process",
    "own": "vLLM in its own process",
}
_GB = 10**9


@dataclass(frozen=True, slots=True)
class Large:
    """What is measured of a large shape; bounded, for a CPU takes seconds for every decision of it."""

    shape: LargeShape
    rows: int
    in_flight_at_swap: int
    rounds: int  # at most
    tables: tuple[Tables, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    rows: int  # decisions an engine takes together
    loads: tuple[Load, ...]
    tables: tuple[Tables, ...]
    warm_up: Tables
    in_flight_at_swap: int
    own_process: bool  # vLLM in its own process is measured, too
    large: Large | None


FULL = Plan(
    rows=256,
    loads=(Load(1, 48), Load(16, 256), Load(64, 640), Load(256, 1024)),
    tables=(Tables("one seat", 64, 1903, all_seats=False), Tables("all seven seats", 64, 1903, all_seats=True)),
    warm_up=Tables("warm-up", 7, 1901, all_seats=True),
    in_flight_at_swap=64,
    own_process=True,
    large=Large(
        shape=LargeShape(
            "0.5B",
            hidden_size=896,
            layers=24,
            heads=14,
            key_value_heads=2,
            intermediate_size=4864,
            vocabulary=151_936,
        ),
        rows=16,
        in_flight_at_swap=8,
        rounds=3,
        tables=(Tables("one seat", 8, 1902, all_seats=False),),
    ),
)


def run(rounds: int) -> list[Figure]:
    """Each engine in a process of its own under an actor's variables, one thread; one at a time, rounds alternating.

    Raises:
        MissingRequirementError: vLLM is not installed, or it would run on a GPU.
    """
    if not vllm_installed():
        raise MissingRequirementError("vLLM is not installed; get its CPU build with: make vllm")
    if torch.cuda.is_available():
        raise MissingRequirementError("the engines are compared on a CPU, and here is a GPU")
    return measure(FULL, rounds)


def measure(plan: Plan, rounds: int) -> list[Figure]:
    """All figures of a plan: rates, swaps and games of the small policy, then swaps and games of the large one."""
    with TemporaryDirectory(prefix="entente-bench-") as folder, ExitStack() as stack:
        small = small_policy_folder(Path(folder) / "small")
        real = requests(max(load.decisions for load in plan.loads))
        hosts: dict[Kind, ActorProcess[EngineHost]] = {
            kind: stack.enter_context(
                actor_process(ENGINES[kind], EngineHost, kind, str(small.folder), plan.rows, real)
            )
            for kind in (("torch", "actor", "own") if plan.own_process else ("torch", "actor"))
        }
        with actor_process("generate", PlainHost, str(small.folder), str(small.moved), real) as plain:
            plain.call(PlainHost.write, Load(8, 8))  # warms up
            figures = rates(plan, hosts, plain, rounds)
            figures += swaps("small policy", small, hosts, plain, plan.in_flight_at_swap, rounds)
        for host in hosts.values():
            host.call(EngineHost.play, plan.warm_up)
        figures += [figure for tables in plan.tables for figure in games("small policy", tables, hosts)]
    return figures + (large_figures(plan.large, rounds) if plan.large else [])


def rates(
    plan: Plan, hosts: dict[Kind, ActorProcess[EngineHost]], plain: ActorProcess[PlainHost], rounds: int
) -> list[Figure]:
    """Decisions and completion tokens a second at every load."""
    figures = []
    for load in plan.loads:
        wrote: dict[str, list[Wrote]] = defaultdict(list)
        for _ in range(rounds):
            wrote["ours"].append(hosts["actor"].call(EngineHost.write, load))
            wrote[TORCH].append(hosts["torch"].call(EngineHost.write, load))
            wrote[GENERATE].append(plain.call(PlainHost.write, load))
        tokens = {side: statistics.median(each.tokens / each.seconds for each in all_) for side, all_ in wrote.items()}
        decisions = {
            side: statistics.median(each.decisions / each.seconds for each in all_) for side, all_ in wrote.items()
        }
        note = (
            f"the same {load.decisions} real decisions, {load.in_flight} in flight all the time (generate: batches of "
            f"so many), 1 thread each, median of {rounds}; no prompt cached from a round before"
        )
        figures += [
            Figure(f"vLLM {name}, {load.in_flight} in flight", "1/s", rate["ours"], rate[side], side, note=note)
            for name, rate in (("decisions", decisions), ("completion tokens", tokens))
            for side in (GENERATE, TORCH)
        ]
    return figures


def swaps(
    name: str,
    policy: Swappable,
    hosts: dict[Kind, ActorProcess[EngineHost]],
    plain: ActorProcess[PlainHost],
    in_flight: int,
    rounds: int,
) -> list[Figure]:
    """Seconds in which vLLM takes new weights, alone and as a learner sends them."""
    moved, ours, own = str(policy.moved), hosts["actor"], hosts.get("own")
    busy = f"with probe, {in_flight} decisions in flight"
    seconds: dict[str, list[float]] = defaultdict(list)
    for through_file in (False, True):  # warms up
        ours.call(EngineHost.load, moved, through_file=through_file)
    plain.call(PlainHost.copy)
    for _ in range(rounds):
        seconds[COPY].append(plain.call(PlainHost.copy))
        seconds["weights alone"].append(ours.call(EngineHost.load, moved, through_file=False))
        seconds["weights alone, through a file"].append(ours.call(EngineHost.load, moved, through_file=True))
        seconds["with probe, idle"].append(ours.call(EngineHost.update, moved, policy.probe, 0))
        seconds[busy].append(ours.call(EngineHost.update, moved, policy.probe, in_flight))
        if own is not None:
            seconds["with probe, idle, own process"].append(own.call(EngineHost.update, moved, policy.probe, 0))
    medians = {way: statistics.median(values) for way, values in seconds.items()}
    copied = medians.pop(COPY)
    size = (policy.moved / WEIGHTS_FILE).stat().st_size / 1e6
    note = f"{size:,.0f} MB, median of {rounds}; decisions in flight are finished first, and that is counted"
    return [
        Figure(f"vLLM weight swap, {name}, {way}", "s", each, copied, COPY, lower_is_better=True, note=note)
        for way, each in medians.items()
    ]


def games(name: str, tables: Tables, hosts: dict[Kind, ActorProcess[EngineHost]]) -> list[Figure]:
    """The share of an actor's time in which its engine does nothing, beside the goal; every engine plays once."""
    return [
        share(f"{name}, {tables.name}, {ENGINES[kind]}", kind, tables, host.call(EngineHost.play, tables))
        for kind, host in hosts.items()
    ]


def share(name: str, kind: Kind, tables: Tables, played: Played) -> Figure:
    """What of these games' time their engine had no part in, beside the goal."""
    outside = 100 * (1 - played.busy_seconds / played.seconds)
    others = "all seats the policy's" if tables.all_seats else "the policy among six random players"
    busy = "seconds with a decision in flight" if kind == "own" else "seconds in the engine's own code"
    return Figure(
        f"time outside the engine: {name}",
        "%",
        outside,
        GOAL_OUTSIDE,
        f"goal: at most {GOAL_OUTSIDE:.0f} %",
        lower_is_better=True,
        note=f"{tables.games} games at once to {tables.until_year}, {others}; {played.decisions} decisions in "
        f"{played.seconds:.1f} s ({played.decisions / played.seconds:.0f}/s); outside = without {busy}",
    )


def large_figures(large: Large, rounds: int) -> list[Figure]:
    """Swaps and games of a large shape, where there is memory for it; else a line says that they are left out."""
    needed, available = large.shape.needed_bytes, available_bytes()
    if available < needed:
        print(
            f"vllm: the {large.shape.name} shape is left out: it needs {needed / _GB:.0f} GB of memory, "
            f"{available / _GB:.0f} are free"
        )
        return []
    with TemporaryDirectory(prefix="entente-bench-") as place:
        policy, real = swappable(large_policy(large.shape), Path(place)), requests(large.rows)
        folder, moved, name = str(policy.folder), str(policy.moved), f"{large.shape.name} shape"
        with (
            actor_process(f"{name}, vLLM", EngineHost, "actor", folder, large.rows, real) as host,
            actor_process(f"{name}, plain", PlainHost, folder, moved, real) as plain,
        ):
            hosts: dict[Kind, ActorProcess[EngineHost]] = {"actor": host}
            return swaps(name, policy, hosts, plain, large.in_flight_at_swap, min(rounds, large.rounds)) + [
                figure for tables in large.tables for figure in games(name, tables, hosts)
            ]
