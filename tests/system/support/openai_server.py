"""vLLM's OpenAI-compatible server over a tiny random chat model, as a user would start one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

START_TIMEOUT_S = 900
MODEL = "tiny"
_CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_chat_model(folder: Path) -> None:
    """A random Qwen3 whose tokens are bytes, with a chat template."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({token: number for number, token in enumerate([*special, *alphabet])}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(special)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=_CHAT
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=64,
        max_position_embeddings=16384,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)


class OpenAIServer:
    """A server process and its children; ``kill`` ends them by their ids."""

    def __init__(self, folder: Path) -> None:
        make_chat_model(folder / "model")
        self._log = (folder / "server.log").open("w")
        self.log_file = folder / "server.log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder / "model"),
                "--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32",
                "--enforce-eager", "--kv-cache-memory-bytes", str(64 << 20), "--max-model-len", "8192",
                "--max-num-seqs", "16",
                # Fed in parts, a prompt ends this server on a CPU: its random generators cannot be rewound.
                "--no-enable-chunked-prefill", "--max-num-batched-tokens", "8192",
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
        )  # fmt: skip

    def wait(self) -> None:
        """Wait until the server answers."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            assert self.process.poll() is None, self.log_file.read_text()[-4000:]
            assert time.monotonic() < deadline, f"no answer in {START_TIMEOUT_S} s: {self.log_file.read_text()[-4000:]}"
            try:
                urllib.request.urlopen(f"{self.url}/models", timeout=5).close()
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
            else:
                return

    def family(self) -> list[psutil.Process]:
        """The server and its engine's process."""
        try:
            server = psutil.Process(self.process.pid)
            return [server, *server.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> None:
        family = self.family()
        for process in family:
            if process.is_running():
                process.send_signal(signal.SIGKILL)
        self.process.wait(300)
        psutil.wait_procs(family, timeout=120)
        self._log.close()


@contextmanager
def openai_server(folder: Path) -> Iterator[OpenAIServer]:
    """A server that answers; it is ended when the block is left."""
    server = OpenAIServer(folder)
    try:
        server.wait()
        yield server
    finally:
        server.kill()
