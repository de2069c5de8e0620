"""Nothing from outside is executed or unpickled, and no address leads to a server that is not verified."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from services.inference.vllm_backend.startup import CoreOptions, engine_arguments
from services.metrics.prometheus_exporter import Exporter
from services.replay.buffer import ReplayError
from services.replay.redis_store.url import client_of, shown_address
from services.settings import InferenceSettings, MetricsSettings
from tests.paths import ROOT

FLOORS = ("cluster", "opponents", "services", "grpo_core")
PICKLING = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "jsonpickle", "marshal", "shelve", "yaml"}
HARMLESS = {("pickle", "PickleBuffer")}  # marks bytes that are sent outside a message; reads nothing
RUNS_TEXT = {"eval", "exec", "compile", "__import__"}
NEVER_TRUE = {"allow_pickle", "trust_remote_code"}
# A file without any of these words cannot contain a danger and is not parsed.
SUSPECT = re.compile(
    "|".join((*PICKLING, *RUNS_TEXT, *NEVER_TRUE, r"\bload\b", "from_pretrained", "environ", "setenv"))
)


def dangers(source: str) -> Iterator[str]:
    """The names in a module that read pickles or run code from outside."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if PICKLING & set(alias.name.split(".")))
            case ast.ImportFrom(module=str(module), names=names):
                yield from (
                    f"{module}.{alias.name}"
                    for alias in names
                    if PICKLING & {*module.split("."), alias.name} and (module, alias.name) not in HARMLESS
                )
            case ast.Attribute(value=ast.Name(id="ray"), attr="cloudpickle"):
                yield "ray.cloudpickle"
            case ast.Call(func=ast.Name(id=name)) if name in RUNS_TEXT:
                yield f"{name}()"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="load")):
                yield "torch.load()"
            case ast.Call(func=ast.Attribute(attr="from_pretrained", value=ast.Name(id=kind)), keywords=given):
                said = {item.arg for item in given if isinstance(item.value, ast.Constant) and item.value.value is True}
                wanted = {"local_files_only"} if "Tokenizer" in kind else {"local_files_only", "use_safetensors"}
                if not wanted <= said:
                    yield f"{kind}.from_pretrained() without {', '.join(sorted(wanted - said))}"
                if not any(item.arg in NEVER_TRUE for item in given):
                    yield f"{kind}.from_pretrained() without trust_remote_code=False"  # it would ask at the terminal
            case ast.Constant(value=str(text)) if text in NEVER_TRUE or text == "VLLM_ALLOW_INSECURE_SERIALIZATION":
                yield text
        if isinstance(node, ast.keyword) and node.arg in NEVER_TRUE and ast.unparse(node.value) != "False":
            yield f"{node.arg}="


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import os, joblib",
        "from pickle import loads",
        "from ray import cloudpickle",
        "import ray.cloudpickle as c",
        "ray.cloudpickle.loads(data)",
        "import yaml",
        "eval(text)",
        "exec(text, {})",
        "torch.load(path)",
        "np.load(path, allow_pickle=True)",
        "LLM(folder, trust_remote_code=True)",
        "arguments = {'trust_remote_code': True}",
        "os.environ['VLLM_ALLOW_INSECURE_SERIALIZATION'] = '1'",
        "AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)",
        "AutoTokenizer.from_pretrained(folder)",
        "AutoTokenizer.from_pretrained(folder, local_files_only=True)",
        "AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=trusted)",
    ],
)
def test_source_that_reads_a_pickle_or_runs_code_is_found(source: str) -> None:
    assert SUSPECT.search(source)
    assert list(dangers(source))


def test_no_module_reads_a_pickle_or_runs_code() -> None:
    modules = [path for floor in FLOORS for path in (ROOT / floor).rglob("*.py")]
    assert len(modules) > 250
    for path in modules:
        source = path.read_text(encoding="utf-8")
        if SUSPECT.search(source):
            assert list(dangers(source)) == [], path.relative_to(ROOT)
    harmless = "model.eval()\nsafetensors.torch.load(data)\nfrom pickle import PickleBuffer\nre.compile(text)"
    assert list(dangers(harmless)) == []


def test_a_shown_address_has_no_password_and_leaves_room_for_advice() -> None:
    files = f"ssl_keyfile=/{'a' * 500}/key.pem&ssl_password=SECRET&password=SECRET"
    assert shown_address(f"rediss://me:SECRET@h:1/0?{files}") == "rediss://me:***@h:1/0"
    assert shown_address("redis://me@h:1/0") == "redis://me@h:1/0"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("ssl_cert_reqs=none", "would trust any server"),
        ("ssl_cert_reqs=optional", "would trust any server"),
        ("ssl_check_hostname=no", "would trust any server"),
        ("ssl_ca_cert=/a/ca.pem", r"a parameter that redis-py does not take \('ssl_ca_cert'\)"),
        ("socket_timeout=soon", "Invalid value for 'socket_timeout'"),
        ("ssl_ca_certs=ca.pem", r"ca\.pem must begin with /"),
        ("ssl_ca_certs=/nowhere/ca.pem", "every machine of the run needs it there"),
        (f"ssl_ca_certs={__file__}", r"ssl_ca_certs of redis\.url cannot be used"),
        (f"ssl_keyfile={__file__}", "a key without its certificate"),
    ],
)
def test_invalid_and_unverified_redis_urls_are_refused_in_one_line(query: str, told: str) -> None:
    with pytest.raises(ReplayError, match=told) as caught:
        client_of(f"rediss://me:SECRET@localhost:1/0?{query}")
    assert "\n" not in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_tls_options_without_the_rediss_scheme_are_refused() -> None:
    with pytest.raises(ReplayError, match=r"is not encrypted, so that ssl_ca_certs means nothing: write rediss://"):
        client_of("redis://localhost:1/0?ssl_ca_certs=/a/ca.pem")


def test_the_exporter_listens_on_loopback_by_default() -> None:
    assert MetricsSettings().host == "127.0.0.1"
    with closing(Exporter(0)) as exporter:
        assert exporter._server.server_address[0] == "127.0.0.1"


def test_vllm_is_configured_to_load_only_safetensors(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 64, "hidden_size": 8, "num_hidden_layers": 1, '
                                          '"num_attention_heads": 1, "dtype": "float32"}')  # fmt: skip
    settings = InferenceSettings(dtype="float32", kv_cache_mib=16)
    arguments = engine_arguments(tmp_path, settings, CoreOptions(on_gpu=True, context_length=64))
    assert arguments["load_format"] == "safetensors"
    assert not arguments.get("trust_remote_code")
