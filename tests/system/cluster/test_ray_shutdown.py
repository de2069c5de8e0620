"""A process outlives the Ray that it shuts down, whatever its threads free meanwhile."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.system.support.training_process import PATIENCE_S

pytestmark = pytest.mark.system

# While Ray shuts down, a thread drops references that only a collection of garbage can free, and allocates, as a thread
# that answers Prometheus does.
SCRIPT = """
import gc, threading, time
import ray
from cluster.runtime.ray_calls import shut_down_ray

class Holder:
    def __init__(self, ref):
        self.ref, self.itself = ref, self

def drop():
    while ray.is_initialized():
        time.sleep(0)
    holders.clear()
    while not over.is_set():
        [[number] for number in range(10_000)]

ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
holders, over = [Holder(ray.put(number)) for number in range(20_000)], threading.Event()
thread = threading.Thread(target=drop, daemon=True)
thread.start()
shut_down_ray()
over.set()
thread.join(60)
assert gc.isenabled()
print("it goes on")
"""


def test_a_reference_that_becomes_garbage_while_ray_shuts_down_does_not_end_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "it goes on\n"), done.stderr
