"""Plain vLLM loads an exported policy, and writes greedily what transformers write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from cluster.configs.loader import load_config
from cluster.export.policy_folder import export_policy
from cluster.runs.folder import RunFolder
from grpo_core.checkpoints.store import save_checkpoint
from grpo_core.learner import Learner
from grpo_core.models.pretrained import save_model
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.text.notation import render
from tests.system.support.vllm_models import peaked_model, word_tokenizer

pytest.importorskip("vllm", reason="vLLM is not installed: `make vllm` brings its CPU build")
pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

LONGEST = 24
# Workers of their own would wait for one another on a busy machine, and use the network.
ONE_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_HOST_IP": "127.0.0.1", "VLLM_NO_USAGE_STATS": "1"}
# A program of its own, which knows nothing of Entente.
PROGRAM = """
import json, sys
from vllm import LLM, SamplingParams
if __name__ == "__main__":
    folder, prompts, longest = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    engine = LLM(folder, dtype="float32", enforce_eager=True, max_model_len=512, max_num_seqs=8,
                 kv_cache_memory_bytes=64 << 20)
    written = engine.generate(prompts, SamplingParams(temperature=0.0, max_tokens=longest), use_tqdm=False)
    with open(sys.argv[4], "w") as file:  # vLLM's logs are on stdout
        json.dump([[each.outputs[0].text, list(each.outputs[0].token_ids)] for each in written], file)
"""


def test_vllm_writes_what_transformers_write(tmp_path: Path) -> None:
    config, run = load_config("smoke"), RunFolder(tmp_path / "run")
    run.open(config, resume=False)
    model, tokenizer = peaked_model(), word_tokenizer()
    learner = Learner(model, config.learner, config.grouping, seed=0)
    save_checkpoint(run.path, learner, lambda path: save_model(model, tokenizer, path), {})
    done = export_policy(run.path, tmp_path / "policy", lambda name, steps: lambda made: None)
    prompts = [render(DiplomacyGame(1901).position, power) for power in POWERS]
    (tmp_path / "program.py").write_text(PROGRAM)
    answered = subprocess.run(
        [sys.executable, str(tmp_path / "program.py"), str(done.folder), json.dumps(prompts), str(LONGEST),
         str(tmp_path / "written.json")],
        capture_output=True, text=True, timeout=1500, env={**os.environ, **ONE_PROCESS},
    )  # fmt: skip
    assert answered.returncode == 0, answered.stdout[-6000:] + answered.stderr[-6000:]
    written = json.loads((tmp_path / "written.json").read_text())
    plain, words = AutoModelForCausalLM.from_pretrained(done.folder).eval(), AutoTokenizer.from_pretrained(done.folder)
    for prompt, (text, ids) in zip(prompts, written, strict=True):
        asked = words(prompt, return_tensors="pt").input_ids
        wanted = plain.generate(asked, max_new_tokens=LONGEST, do_sample=False)[0, asked.shape[1] :].tolist()
        assert ids == wanted
        assert text.split() == words.decode(wanted, skip_special_tokens=True).split()
