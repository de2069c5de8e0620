"""What an actor's process imports, looked at in a process of its own."""

from __future__ import annotations

import subprocess
import sys

_ACTOR = """
import sys
from cluster.runtime.light_transformers import leave_out_optional_packages

leave_out_optional_packages()
import cluster.actors.learner, cluster.actors.rollout
from transformers import Qwen2Config, Qwen2ForCausalLM

Qwen2ForCausalLM(Qwen2Config(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                             num_attention_heads=1, num_key_value_heads=1))
assert "torch" in sys.modules
unused = {"sklearn", "scipy", "pandas", "pyarrow"} & sys.modules.keys()
assert not unused, unused
from grpo_core.advantages.clustering import kmeans_labels
import numpy as np

assert len(set(kmeans_labels(np.array([[0.0], [0.1], [9.0], [9.1]]), 2, 0))) == 2
"""


def test_an_actor_imports_no_package_that_it_does_not_use_and_those_that_it_does() -> None:
    done = subprocess.run([sys.executable, "-c", _ACTOR], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
