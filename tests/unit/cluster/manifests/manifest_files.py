"""The files of cluster/manifests and docker as plain data, and the commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.paths import ROOT, SCHEMAS

MANIFESTS = ROOT / "cluster" / "manifests"
DOCKER = ROOT / "docker"
NO_SCHEMAS = f"the published schemas of KubeRay and Compose are not at {SCHEMAS}"
KUBERNETES = ("raycluster.yaml", "rayjob.yaml", "redis.yaml", "shared_storage.yaml")

Found = tuple[str, dict[str, Any]]  # the file's name, and the object


def documents(path: Path) -> list[Any]:
    """Every YAML document of a file."""
    return list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader))


def kubernetes_objects() -> list[Found]:
    """Every Kubernetes object of the manifests."""
    return [(name, document) for name in KUBERNETES for document in documents(MANIFESTS / name)]


def compose() -> dict[str, Any]:
    """docker/compose.yaml."""
    [document] = documents(DOCKER / "compose.yaml")
    return document


def within(value: Any) -> Iterator[dict[str, Any]]:
    """Every mapping anywhere in a document, the outer ones first."""
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from within(item)
    elif isinstance(value, list):
        for item in value:
            yield from within(item)


def pod_specs() -> list[Found]:
    """Every pod that the manifests describe."""
    return [
        (name, item) for name, document in kubernetes_objects() for item in within(document) if "containers" in item
    ]


def run_rights() -> list[str]:
    """The rules of a run's user on the replay server, as `ACL SETUSER` takes them."""
    stateful = next(document for _, document in kubernetes_objects() if document["kind"] == "StatefulSet")
    [container] = stateful["spec"]["template"]["spec"]["containers"]
    found = re.search(r'^user entente on "\S+" (.+)$', container["args"][0].replace("\\\n", ""), re.MULTILINE)
    assert found, "redis.yaml has no user for runs"
    return found[1].split()


def shown_commands(readme: Path) -> list[list[str]]:
    """The words of every command in a README's code blocks, without comments."""
    blocks = re.findall(r"^```\n(.*?)^```", readme.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.strip()]
    return [shlex.split(line, comments=True) for line in lines]


def training_arguments(words: Sequence[str]) -> list[str] | None:
    """What follows ``python -m cluster.train`` or ``entente train`` in a command; None for another command."""
    text = list(words)
    for start in (["python", "-m", "cluster.train"], ["entente", "train"]):
        for at in range(len(text)):
            if text[at : at + len(start)] == start:
                return text[at + len(start) :]
    return None


def training_commands() -> list[tuple[str, list[str]]]:
    """Every training command of manifests, Compose file and READMEs: its file, and its arguments."""
    [job] = documents(MANIFESTS / "rayjob.yaml")
    commands = [
        ("rayjob.yaml", shlex.split(job["spec"]["entrypoint"])),
        ("compose.yaml", compose()["services"]["train"]["command"]),
        *((str(path.relative_to(ROOT)), words) for path in (MANIFESTS / "README.md", DOCKER / "README.md")
          for words in shown_commands(path)),
    ]  # fmt: skip
    return [(name, arguments) for name, words in commands if (arguments := training_arguments(words)) is not None]
