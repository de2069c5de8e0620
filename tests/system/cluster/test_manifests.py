"""Manifests checked by the programs that read them: KubeRay's schemas, Ray's launcher and commands, a replay server."""

from __future__ import annotations

import copy
import os
import shlex
import socket
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import redis
import yaml
from redis.backoff import ConstantBackoff, NoBackoff
from redis.retry import Retry

from services.replay.server.embedded import find_server_program
from tests.unit.cluster.manifests.manifest_files import (
    MANIFESTS,
    NO_SCHEMAS,
    SCHEMAS,
    compose,
    documents,
    kubernetes_objects,
    shown_commands,
)

pytestmark = pytest.mark.system

STATEFUL_SET_KEYS = {"serviceName", "replicas", "selector", "template", "volumeClaimTemplates"}


@cache
def schema_of(kind: str) -> Any:
    """The published schema of a KubeRay kind, version v1, which refuses unknown keys."""
    text = (SCHEMAS / f"ray.io_{kind.lower()}s.yaml").read_text()
    first, marker, _ = text.partition("\n    name: v1alpha1\n")
    assert marker, "v1 stands first; the rest would take as long again to read"
    versions = yaml.load(first, Loader=yaml.CSafeLoader)["spec"]["versions"]
    assert versions[0]["name"] == "v1"
    return strict(versions[0]["schema"]["openAPIV3Schema"])


def strict(schema: Any) -> Any:
    """The schema with unknown keys refused wherever it does not say that it keeps them."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items() if key != "properties"}
    if isinstance(schema.get("properties"), dict):
        made["properties"] = {name: strict(value) for name, value in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            made.setdefault("additionalProperties", False)
    return made


def part(path: str) -> Any:
    """A part of the schema of RayCluster, which holds Kubernetes' own of pods, services, claims and network rules."""
    schema = schema_of("RayCluster")
    for name in path.split("."):
        schema = schema["items"] if name == "[]" else schema["properties"][name]
    return schema


def parts_of(document: Any) -> Iterator[tuple[Any, Any]]:
    """The parts of a plain Kubernetes object that can be checked, each with its schema."""
    spec = document.get("spec", {})
    claim = part("spec.headGroupSpec.template.spec.volumes.[].ephemeral.volumeClaimTemplate.spec")
    match document["kind"]:
        case "Service":
            yield spec, part("spec.headGroupSpec.headService.spec")
        case "PersistentVolumeClaim":
            yield spec, claim
        case "StatefulSet":
            assert spec.keys() == STATEFUL_SET_KEYS
            yield spec["template"], part("spec.headGroupSpec.template")
            for template in spec["volumeClaimTemplates"]:
                yield template["spec"], claim
        case "NetworkPolicy":
            assert spec.keys() == {"podSelector", "policyTypes", "ingress"}
            for rule in spec["ingress"]:
                yield rule, part("spec.networkPolicy.head.ingressRules.[]")
        case "ConfigMap":
            assert all(isinstance(text, str) for text in document["data"].values())
        case kind:
            raise AssertionError(f"no check for a {kind}")


@pytest.mark.skipif(not SCHEMAS.is_dir(), reason=NO_SCHEMAS)
def test_kubernetes_objects_fit_their_schemas_and_misspelt_keys_do_not() -> None:
    for _, document in kubernetes_objects():
        if document["apiVersion"] == "ray.io/v1":
            jsonschema.Draft7Validator(schema_of(document["kind"])).validate(document)
        else:
            for value, schema in parts_of(document):
                jsonschema.Draft7Validator(schema).validate(value)
    [job] = documents(MANIFESTS / "rayjob.yaml")
    checker = jsonschema.Draft7Validator(schema_of("RayJob"))
    for change in (
        "entrypoint",
        "rayClusterSpec.workerGroupSpecs",
        "rayClusterSpec.headGroupSpec.template.spec.containers",
    ):
        wrong = copy.deepcopy(job)
        *parents, last = ("spec." + change).split(".")
        place = wrong
        for name in parents:
            place = place[name]
        place[last + "x"] = place.pop(last)
        assert not checker.is_valid(wrong), change


def test_rays_launcher_accepts_its_file() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    [config] = documents(MANIFESTS / "ray_up.yaml")
    prepared = prepare_config(config)
    validate_config(prepared)
    assert prepared["setup_commands"] == []
    assert prepared["head_setup_commands"] == [], "the launcher's own would install another Ray"
    config["available_node_types"]["rollout"]["max_worker"] = 1
    with pytest.raises(Exception, match="max_worker"):
        validate_config(prepare_config(config))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray's own modules
def test_ray_has_every_option_that_the_readmes_show() -> None:
    from ray.scripts.scripts import cli

    [config] = documents(MANIFESTS / "ray_up.yaml")
    shell = " ; ".join((*config["head_start_ray_commands"], *config["worker_start_ray_commands"]))
    written = [shlex.split(command) for command in shell.split(";")]
    shown = [words for words in shown_commands(MANIFESTS / "README.md") if words[0] == "ray"]
    commands = [words[1:] for words in (*written, *shown) if words[:1] == ["ray"]]
    assert {words[0] for words in commands} == {"start", "stop", "up", "dashboard", "job", "get-auth-token"}
    for name, *arguments in commands:
        command = cli.commands[name]
        if name == "job":
            command = command.commands[arguments.pop(0)]
        command.make_context(name, arguments)


@pytest.mark.parametrize("file", ["redis.yaml", "compose.yaml"])
def test_the_replay_servers_command_starts_a_durable_server(file: str, tmp_path: Path) -> None:
    if file == "redis.yaml":
        stateful = next(item for _, item in kubernetes_objects() if item["kind"] == "StatefulSet")
        [container] = stateful["spec"]["template"]["spec"]["containers"]
        [configuration] = [item for _, item in kubernetes_objects() if item["kind"] == "ConfigMap"]
        (tmp_path / "valkey.conf").write_text(configuration["data"]["valkey.conf"].replace("/data", str(tmp_path)))
        command = [*container["command"], *container["args"]]
    else:
        command = [word.replace("$$", "$") for word in compose()["services"]["redis"]["command"]]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = command[-1].replace("/etc/valkey", str(tmp_path)).replace("/data", str(tmp_path))
    script = script.replace("requirepass", f"bind 127.0.0.1\nport {port}\nrequirepass")
    (tmp_path / "valkey-server").symlink_to(find_server_program())
    passwords = {"REDISCLI_AUTH": "a password", "ENTENTE_REDIS_PASSWORD": "a run's"}
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", **passwords}
    server = subprocess.Popen([*command[:-1], script], cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    try:
        client = redis.Redis(port=port, password="a password", retry=Retry(ConstantBackoff(0.05), 200))
        assert client.ping()
        for name, value in {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}.items():
            assert client.config_get(name) == {name: value}
        assert client.config_get("maxmemory")["maxmemory"] != "0"
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=port, retry=Retry(NoBackoff(), 0)).ping()
        if file == "redis.yaml":
            run = redis.Redis(port=port, username="entente", password="a run's", retry=Retry(NoBackoff(), 0))
            assert run.set("entente:a", "kept")
            for not_its_own in (lambda: run.get("RAY"), run.flushall, lambda: run.config_get("requirepass")):
                with pytest.raises(redis.exceptions.NoPermissionError):
                    not_its_own()
        assert client.info("server")["process_id"] == server.pid, "SIGTERM reaches the server itself"
    finally:
        server.terminate()
        server.wait(300)
