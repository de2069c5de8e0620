"""vLLM as in rollout actors on a CPU: its rate, its weight swaps, and an actor's time outside the engine.

Yardsticks: the torch engine, ``transformers.generate`` under the same masks, and a plain copy of the same weights.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from transformers import Qwen2Config

from cluster.bench.figure import Figure, MissingRequirementError
from cluster.bench.inference.hosts import EngineHost, Games, Kind, Load, PlainHost, Played, median_rates
from cluster.bench.inference.policies import SavedPolicy, real_requests, save_policy
from cluster.bench.models import qwen2_config
from cluster.bench.processes import HostProcess, host_process
from cluster.runtime.actor_env import actor_variables
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

Hosts = dict[Kind, HostProcess[EngineHost]]


@dataclass(frozen=True, slots=True)
class Plan:
    """The measurements of one policy."""

    name: str
    config: Qwen2Config | None  # None: the small policy
    kinds: tuple[Kind, ...]
    rows: int  # decisions an engine takes together
    loads: tuple[Load, ...]
    in_flight_at_swap: int
    games: tuple[Games, ...]
    needed_bytes: int = 0
    most_rounds: int | None = None


ONE_SEAT, ALL_SEATS = Games("one seat", 64, 1903, False), Games("all seven seats", 64, 1903, True)
WARM_UP = Games("warm-up", 7, 1901, all_seats=True)
SMALL = Plan(
    name="small policy",
    config=None,
    kinds=("torch", "actor", "own"),
    rows=256,
    loads=(Load(1, 48), Load(16, 256), Load(64, 640), Load(256, 1024)),
    in_flight_at_swap=64,
    games=(ONE_SEAT, ALL_SEATS),
)
LARGE = Plan(  # little is measured of it: a CPU takes seconds for every decision
    name="0.5B shape",
    config=qwen2_config(896, 4864, 24, 14, 2, 151_936, tied=True),
    kinds=("actor",),
    rows=16,
    loads=(),
    in_flight_at_swap=8,
    games=(Games("one seat", 8, 1902, all_seats=False),),
    needed_bytes=13 * _GB,  # ten times its weights (in vLLM, in the copy, in transit), and 3 GB
    most_rounds=2,
)


def run(rounds: int) -> list[Figure]:
    """Measure each engine in its own process with an actor's variables, one thread, one at a time, alternating.

    Raises MissingRequirementError if vLLM is not installed, or would run on a GPU.
    """
    if not vllm_installed():
        raise MissingRequirementError("vLLM is not installed; get its CPU build with: make vllm")
    if torch.cuda.is_available():
        raise MissingRequirementError("the engines are compared on a CPU, and this machine has a GPU")
    return measure(SMALL, rounds) + measure(LARGE, rounds)


def measure(plan: Plan, rounds: int) -> list[Figure]:
    """Measure rates, swaps and games of one policy; without enough memory, print a line and return no figures."""
    available, rounds = available_bytes(), min(rounds, plan.most_rounds or rounds)
    if available < plan.needed_bytes:
        print(
            f"vllm: the {plan.name} is left out: it needs {plan.needed_bytes / _GB:.0f} GB of memory, "
            f"{available / _GB:.0f} are free"
        )
        return []
    real, variables = real_requests(max(plan.rows, *(load.decisions for load in plan.loads), 0)), actor_variables(1)
    with TemporaryDirectory(prefix="entente-bench-") as place, ExitStack() as stack:
        policy = save_policy(plan.config, Path(place))
        hosts: Hosts = {
            kind: stack.enter_context(host_process(variables, EngineHost, kind, policy.folder, plan.rows, real))
            for kind in plan.kinds
        }
        with host_process(variables, PlainHost, policy.folder, policy.other_weights, real) as plain:
            if plan.loads:
                plain.call(PlainHost.write, Load(8, 8))  # warms up
            figures = rates(plan.loads, hosts, plain, rounds)
            figures += swaps(plan.name, policy, hosts, plain, plan.in_flight_at_swap, rounds)
        if plan.config is None:
            for host in hosts.values():
                host.call(EngineHost.play, WARM_UP)
        return figures + [
            outside_share(f"{plan.name}, {games.name}, {ENGINES[kind]}", kind, games, host.call(EngineHost.play, games))
            for games in plan.games  # every engine plays once
            for kind, host in hosts.items()
        ]


def rates(loads: tuple[Load, ...], hosts: Hosts, plain: HostProcess[PlainHost], rounds: int) -> list[Figure]:
    """Measure decisions and completion tokens a second at every load."""
    figures = []
    for load in loads:
        rate = median_rates(
            {
                "ours": partial(hosts["actor"].call, EngineHost.write, load),
                TORCH: partial(hosts["torch"].call, EngineHost.write, load),
                GENERATE: partial(plain.call, PlainHost.write, load),
            },
            rounds,
        )
        note = (
            f"the same {load.decisions} real decisions, {load.in_flight} always in flight (generate: batches of "
            f"so many), 1 thread each, median of {rounds}; no prompt cached from an earlier round"
        )
        ours = rate["ours"]
        for side in (GENERATE, TORCH):
            name = f"vLLM decisions, {load.in_flight} in flight"
            figures.append(Figure(name, "1/s", ours.decisions, rate[side].decisions, side, note=note))
        for side in (GENERATE, TORCH):
            name = f"vLLM completion tokens, {load.in_flight} in flight"
            figures.append(Figure(name, "1/s", ours.tokens, rate[side].tokens, side, note=note))
    return figures


def swaps(
    name: str, policy: SavedPolicy, hosts: Hosts, plain: HostProcess[PlainHost], in_flight: int, rounds: int
) -> list[Figure]:
    """Measure the seconds for vLLM to take new weights, alone and as a learner sends them."""
    weights, ours = policy.other_weights, hosts["actor"]

    def update(host: HostProcess[EngineHost], in_flight: int) -> float:
        return host.call(EngineHost.update, weights, policy.probe, in_flight)

    ways: dict[str, Callable[[], float]] = {
        COPY: lambda: plain.call(PlainHost.copy),
        "weights alone": lambda: ours.call(EngineHost.load, weights, False),
        "weights alone, through a file": lambda: ours.call(EngineHost.load, weights, True),
        "with probe, idle": lambda: update(ours, 0),
        f"with probe, {in_flight} decisions in flight": lambda: update(ours, in_flight),
    }
    if own := hosts.get("own"):
        ways["with probe, idle, own process"] = lambda: update(own, 0)
    for warm_up in list(ways.values())[:3]:
        warm_up()
    seconds: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for way, swap in ways.items():
            seconds[way].append(swap())
    medians = {way: statistics.median(values) for way, values in seconds.items()}
    copied = medians.pop(COPY)
    size = weights.stat().st_size / 1e6
    note = f"{size:,.0f} MB, median of {rounds}; decisions in flight are finished first, and that is counted"
    return [
        Figure(f"vLLM weight swap, {name}, {way}", "s", each, copied, COPY, lower_is_better=True, note=note)
        for way, each in medians.items()
    ]


def outside_share(name: str, kind: Kind, games: Games, played: Played) -> Figure:
    """The share of these games' time in which the engine was idle, beside the goal."""
    outside = 100 * (1 - played.busy_seconds / played.seconds)
    others = "all seats the policy's" if games.all_seats else "the policy among six random players"
    busy = "seconds with a decision in flight" if kind == "own" else "seconds in the engine's own code"
    return Figure(
        f"time outside the engine: {name}",
        "%",
        outside,
        GOAL_OUTSIDE,
        f"goal: at most {GOAL_OUTSIDE:.0f} %",
        lower_is_better=True,
        note=f"{games.games} games at once to {games.until_year}, {others}; {played.decisions} decisions in "
        f"{played.seconds:.1f} s ({played.decisions / played.seconds:.0f}/s); outside = without {busy}",
    )
