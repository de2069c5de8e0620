"""The sizes of cluster/manifests/sizes: their configs, and the nodes that they are for."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.configs.loader import load_config
from cluster.configs.schema import Config
from tests.paths import ROOT
from tests.unit.cluster.manifests.manifest_files import MANIFESTS

SIZES = MANIFESTS / "sizes"


@dataclass(frozen=True)
class Nodes:
    """Nodes of one kind."""

    count: int
    gpus: int
    cpus: int
    memory_gib: int


@dataclass(frozen=True)
class Size:
    """A config and its nodes."""

    config: Config
    nodes: tuple[Nodes, ...]


def size(name: str) -> Size:
    """The size ``one_node``, ``nine_nodes`` or ``spot``."""
    if name == "spot":
        return Size(load_config("cluster"), (Nodes(1, 1, 8, 24), Nodes(8, 1, 4, 14)))
    nodes = {"one_node": Nodes(1, 8, 32, 200), "nine_nodes": Nodes(9, 8, 32, 200)}
    return Size(load_config(str((SIZES / f"{name}.toml").relative_to(ROOT))), (nodes[name],))
