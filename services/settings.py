"""Settings of the services: inference, redis, metrics."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import Field, Strict, field_validator, model_validator

from grpo_core.errors import one_line
from grpo_core.section import LONGEST_WAIT_S, Settings

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?\.?")


def check_host(host: str) -> None:
    """Raise ValueError if the text is neither a host's name nor an IP address."""
    try:
        if ":" in host:
            ipaddress.ip_address(host)
            return
        plain = host.encode("idna").decode("ascii")  # refuses empty and long labels, which the resolver cannot encode
    except ValueError as error:  # a UnicodeError is one
        raise ValueError(f"{one_line(repr(host), 80)} is no host: {one_line(error, 80)}") from None
    if not _HOST.fullmatch(plain):
        raise ValueError(f"{one_line(repr(host), 80)} is no host: give a name such as head.example.org, or an address")


def check_host_and_port(address: str) -> None:
    """Raise ValueError if the text is not ``HOST:PORT``."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= 65535):
        raise ValueError(f"{one_line(repr(address), 80)} is not host:port, with a port from 1 to 65535")
    check_host(host.removeprefix("[").removesuffix("]"))


def check_url(url: str) -> None:
    """Raise ValueError if a server's url is no url, or its host is no host; the message does not quote it."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:  # its text may quote the url with its password
        raise ValueError("it is no url: its port is no number up to 65535, or its host is damaged") from error
    if parts.hostname is not None:
        check_host(unquote(parts.hostname))


class InferenceSettings(Settings):
    """The engine that generates the learner's orders."""

    engine: Literal["auto", "torch", "vllm"] = Field(
        "auto", description="Inference engine of the rollout actors; auto: vllm where it is installed with a GPU"
    )
    decoding: Literal["constrained", "coordinated", "free"] = Field(
        "constrained",
        description="constrained: only legal order sheets can be sampled; coordinated: of these, only sheets whose "
        "orders do not stop one another, in worlds that know such (diplomacy: no two own units enter one province); "
        "free: parsed and repaired",
    )
    max_concurrent_decisions: int = Field(
        64, ge=1, le=10**6, description="Decisions decoded together (rows of the KV cache)"
    )
    max_completion_length: int = Field(224, ge=16, le=1 << 24, description="Tokens of the longest order sheet")
    thinking_tokens: int = Field(
        0,
        ge=0,
        le=1 << 20,
        description="Most tokens of a thought: free text, trained like the orders, that the policy writes before them; "
        "needs policy.prompt = chat; 0: none",
    )
    temperature: float = Field(1.0, gt=0, description="Sampling temperature of training games")
    threads: int = Field(1, ge=1, le=4096, description="CPU threads of one engine")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="Number format of vllm's weights; auto: that of the policy's folder"
    )
    swap: Literal["wait", "keep"] = Field(
        "wait",
        description="What vllm does with decisions in flight when full weights arrive; wait: they finish under the "
        "weights they began with, new ones are held; keep: they are held and go on under the new ones",
    )
    tensor_parallel_size: int = Field(1, ge=1, le=1024, description="GPUs of one vllm engine")
    gpu_memory_utilization: float = Field(0.85, gt=0, le=1, description="Share of a GPU's memory that vllm takes")
    kv_cache_mib: int | None = Field(
        None,
        ge=16,
        le=1 << 30,
        description="MiB of vllm's KV cache; unset: what its memory share leaves, on a CPU what is needed",
    )
    quantization: str | None = Field(None, description="vllm's quantization of the weights, such as fp8; unset: none")
    max_loras: int = Field(
        4, ge=1, le=10_000, description="LoRA adapters that vllm batches together, opponents' included"
    )
    enforce_eager: bool = Field(False, description="vllm without CUDA graphs: slower, less memory; always so on a CPU")
    opponent_engine: Literal["auto", "second", "turns"] = Field(
        "auto",
        description="Engine of opponents that are full weights (adapters are batched with the learner's); turns: "
        "the learner's vllm, in turn; second: an engine of their own; auto: second where memory allows",
    )
    engine_process: Literal["auto", "actor", "own"] = Field(
        "auto",
        description="Where vllm steps; auto: on a CPU in the actor's process, else in its own; over several GPUs: own",
    )


class RedisSettings(Settings):
    """The server, or servers, of the replay buffer."""

    url: str | None = Field(
        None,
        description="redis://[user@]host:port/db of an external server; its password comes from "
        "ENTENTE_REDIS_PASSWORD. With TLS rediss://..., which takes ?ssl_ca_certs=FILE of a private CA and, where the "
        "server asks for a certificate, &ssl_certfile=FILE&ssl_keyfile=FILE (at the same path on every machine). "
        "Unset: one is started in the run folder",
    )
    urls: Annotated[tuple[str, ...], Strict(False)] = Field(
        (),
        description="Addresses as of url of several external servers, which share the episodes by role; their number "
        "and order must stay the same for the life of a run. The same password is for all that name none",
        examples=[["redis://one.example:6379", "redis://two.example:6379"]],
    )
    servers: int = Field(
        1,
        ge=1,
        le=64,
        description="Servers that the run starts in its folder if neither url nor urls is set; they share the episodes "
        "by role. One server uses one core",
    )
    connect_timeout_s: float = Field(
        5.0, gt=0, le=LONGEST_WAIT_S, description="Seconds to wait for the server to answer at the start"
    )
    answer_timeout_s: float = Field(
        30.0, gt=0, le=LONGEST_WAIT_S, description="Seconds to wait for it later on; long enough for it to be restarted"
    )
    away_timeout_s: float = Field(
        900.0,
        gt=0,
        le=LONGEST_WAIT_S,
        description="Seconds that a run waits for an external server that cannot be reached, before it ends; nothing "
        "else counts as late meanwhile",
    )
    group_timeout_s: float = Field(
        120.0,
        gt=0,
        le=LONGEST_WAIT_S,
        description="Seconds after which an incomplete line-up block is delivered as it is",
    )
    max_episode_mib: int = Field(
        64,
        ge=1,
        le=128,
        description="MiB of the largest stored episode; what is larger is set aside unread. A long game of a large "
        "model takes a few",
    )

    @property
    def external(self) -> tuple[str, ...]:
        """The addresses of the external servers, in their order; empty if the run starts its own."""
        return self.urls or (() if self.url is None else (self.url,))

    @property
    def count(self) -> int:
        """The number of servers."""
        return len(self.external) or self.servers

    @field_validator("url")
    @classmethod
    def _names_a_host(cls, value: str | None) -> str | None:
        if value is not None:
            check_url(value)
        return value

    @field_validator("urls")
    @classmethod
    def _names_servers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for url in value:
            check_url(url)
        places = [urlsplit(url) for url in value]
        if len({(parts.hostname, parts.port, parts.path) for parts in places}) < len(places):
            raise ValueError("it names a server twice")
        return value

    @model_validator(mode="after")
    def _names_servers_once(self) -> Self:
        if self.url is not None and self.urls:
            raise ValueError("url and urls exclude each other: set urls for several servers, url for one")
        if self.servers > 1 and self.external:
            raise ValueError("servers is the number that the run starts itself, so it excludes url and urls")
        return self


class MetricsSettings(Settings):
    """The metrics' exporter, display and trackers."""

    port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Prometheus exporter port; 0: any free one, kept over restarts and resumes; unset: off",
    )
    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address that the exporter listens on; 127.0.0.1: this machine alone; 0.0.0.0: every network this "
        "machine is in, where all who reach the port can read the run's figures (names of the run and its opponents "
        "included) without a password; it shows no weights, games or keys, and nothing can be changed through it",
    )
    display: bool = Field(True, description="Live terminal display (falls back to plain lines without a terminal)")
    trackers: Annotated[tuple[Literal["tensorboard", "wandb", "trackio"], ...], Strict(False)] = Field(
        (),
        description="Experiment trackers that also record the run, each below its folder: tensorboard, wandb (offline "
        "unless the environment variable WANDB_MODE says otherwise), trackio; each needs the extra of its name, "
        "as in pip install 'entente[wandb]'",
        examples=[["tensorboard", "wandb"]],
    )
    traced_tokens: int = Field(
        1000,
        ge=0,
        le=1_000_000,
        description="Trained tokens of each update whose probabilities are kept in traces/ beside its episodes and "
        "turns, for entente explore; 0: no traces; about 40 kB an update",
    )

    @field_validator("host")
    @classmethod
    def _is_a_host(cls, value: str) -> str:
        check_host(value)
        return value

    @field_validator("trackers")
    @classmethod
    def _names_each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise ValueError("it names a tracker twice")
        return value
