"""A Ray head with an autoscaler whose nodes are processes here, and a pool that is scaled by its load.

Run inside process, mount and network namespaces of its own, where nothing else can be met or ended by mistake; its
last line of output is the result as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

NODE_CPUS = 1
BLOCK_S = 0.6


def start_head(folder: Path, sockets: Path) -> str:
    """The address of a head with room for one actor, whose autoscaler may start two nodes with room for one each.

    Args:
        folder: for its configuration.
        sockets: a folder with a short name, or Unix refuses the sockets in it.
    """
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True, timeout=10)
    fake = "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider"
    nothing = ("initialization", "setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray")
    settings: dict[str, object] = {
        **{f"{kind}_commands": [] for kind in nothing},
        "auth": {},
        "docker": {},
        "file_mounts": {},
        "cluster_synced_files": [],
        "cluster_name": "fake",
        "provider": {
            "type": "external",
            "module": fake,
            "use_node_id_as_ip": True,
            "disable_launch_config_check": True,
            "disable_node_updaters": True,
        },
        "max_workers": 2,
        "idle_timeout_minutes": 0.05,
        "upscaling_speed": 1.0,
        "head_node_type": "ray.head.default",
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 1}, "node_config": {}, "max_workers": 0},
            "rollout": {"resources": {"CPU": NODE_CPUS}, "node_config": {}, "min_workers": 0, "max_workers": 2},
        },
    }
    file = folder / "autoscaling.json"  # JSON is valid YAML
    file.write_text(json.dumps(settings))
    environment = {**os.environ, "AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1"}
    command = [
        str(Path(sys.executable).with_name("ray")), "start", "--head", f"--autoscaling-config={file}", "--num-cpus=1",
        "--node-ip-address=127.0.0.1", "--port=6379", "--include-dashboard=false", "--object-store-memory=100000000",
        f"--temp-dir={sockets}",
    ]  # fmt: skip
    subprocess.run(command, env=environment, check=True, timeout=60, stdout=subprocess.DEVNULL)
    return "127.0.0.1:6379"


def nodes() -> int:
    import ray

    return sum(node["Alive"] for node in ray.nodes())


def end_a_node() -> None:
    """Take a node away like a spot market: kill the raylet of one of the autoscaler's nodes."""
    for process in psutil.process_iter(["name", "cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if process.info["name"] == "raylet" and "--head" not in line:
            os.kill(process.pid, signal.SIGKILL)
            return
    raise AssertionError("there is no node to end")


def main(folder: Path, sockets: Path) -> dict[str, object]:
    """The result."""
    import ray
    from ray.util.placement_group import placement_group

    from cluster.configs.loader import load_config
    from cluster.driver.autoscaling import Scaling
    from cluster.runtime.placement import FurtherPlace
    from cluster.runtime.ray_calls import shut_down_ray
    from tests.system.support.fake_players import Block
    from tests.system.support.fake_pool import PoolHarness

    ray.init(address=start_head(folder, sockets), log_to_driver=False)
    config = load_config(
        "smoke", ("rollout.max_actors=3", "rollout.games_per_actor=2", "rollout.scale_every_s=0.5",
                  "learner.episodes_per_update=64", "rollout.num_generations=1"),
    )  # fmt: skip
    seen: list[int] = [nodes()]
    most_ready = 0

    def further() -> FurtherPlace:
        return FurtherPlace(placement_group([{"CPU": NODE_CPUS}]))

    # Ray may fetch the weights from the killed node until it knows of its end, which takes it half a minute.
    limits = {"start_timeout_s": 300.0, "swap_timeout_s": 180.0}
    with PoolHarness(folder, actors=1, games_per_actor=2, further=further, **limits) as harness:
        notes: list[str] = []
        scaling = Scaling(config.rollout, config.learner.episodes_per_update, harness.pool, notes.append)
        started: list[str] = []
        killed = False
        deadline = time.monotonic() + 600

        def look(*, learning: bool) -> None:
            nonlocal most_ready
            assert time.monotonic() < deadline, f"nodes {seen}, {notes}, {harness.notices}"
            harness.poll()
            scaling.observe(learning=learning, updated=True)
            most_ready = max(most_ready, harness.pool.ready)
            if (now := nodes()) != seen[-1]:
                seen.append(now)

        # The learner waits for episodes: all seats are taken at once, repeatedly.
        while not (killed and most_ready == 3 and harness.pool.ready == 3 and harness.pool.restarts):
            while harness.pool.has_room(1):
                started.append(f"b/{len(started):04d}")
                harness.start(Block(started[-1], seconds=BLOCK_S))
            look(learning=False)
            if harness.pool.ready == 3 and not killed:
                killed = True
                end_a_node()
        # Then the learner is busy.
        while seen[-1] > 1 or len(harness.blocks) < len(started):
            look(learning=True)
        facts = {
            "nodes": seen,
            "most_ready": most_ready,
            "started": started,
            "played": harness.played(),
            "by_further_actors": sum(player > 0 for _, player in harness.blocks),
            "replaced": harness.pool.restarts,
            "replacements_left": harness.pool.replacements_left,
            "notes": notes,
            "notices": harness.notices,
        }
    shut_down_ray()
    return facts


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    os.environ["RAY_AUTH_MODE"] = "disabled"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as short:
        print(json.dumps(main(Path(sys.argv[1]), Path(short))))
