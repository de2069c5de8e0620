"""The page of sizes: its configs load, its table is theirs, and they fit their nodes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cluster.configs.loader import load_config
from cluster.runtime.memory import GIB, learner_estimate, needed_bytes
from cluster.runtime.placement import cpus_asked, gpus_asked
from tests.unit.cluster.manifests.sizes.size_files import SIZES, size

PAGE = (SIZES / "README.md").read_text(encoding="utf-8")
NAMES = ("one_node", "nine_nodes", "spot")
SNIPPETS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
MAY_DIFFER = {
    "run", "redis", "rollout.actors", "rollout.max_actors", "rollout.start_timeout_s", "rollout.node_timeout_s",
    "rollout.max_replacements", "learner.processes", "learner.episodes_per_update", "metrics.host",
}  # fmt: skip
QWEN3 = {  # hidden, layers, query heads, feed-forward, tied embeddings
    "0.6B": (1024, 28, 16, 3072, True), "4B": (2560, 36, 32, 9728, True), "8B": (4096, 36, 32, 12288, False),
}  # fmt: skip


def rows(heading: str) -> dict[str, list[str]]:
    """A table's rows by their first cell, from the row that begins with ``heading`` on."""
    table = PAGE[PAGE.index(f"| {heading} ") :].split("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return {first.split("`")[1] if "`" in first else first: rest for first, *rest in cells}


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_the_table_is_that_of_the_configs(number: int) -> None:
    config = size(NAMES[number]).config.model_dump()
    keys = {name: values[number] for name, values in rows("key").items() if "." in name}
    assert len(keys) > 10
    for name, shown in keys.items():
        section, key = name.split(".")
        value = config[section][key]
        expected = {None: "unset", True: "true", False: "false"}.get(value) if value in (None, True, False) else None
        if isinstance(value, bool) or value is None:
            assert shown == expected, name
        else:
            assert shown == (value if isinstance(value, str) else f"{value:g}"), name
    assert (config["redis"]["url"] is None) == (rows("key")["replay server"][number] == "the run's own")


def test_sizes_differ_from_the_shipped_config_only_in_the_keys_of_a_size() -> None:
    shipped = size("spot").config.model_dump()
    for name in ("one_node", "nine_nodes"):
        config = size(name).config.model_dump()
        for section, keys in shipped.items():
            if section in MAY_DIFFER or not isinstance(keys, dict):
                continue
            differing = {f"{section}.{key}" for key in keys if config[section][key] != keys[key]}
            assert differing <= MAY_DIFFER, name


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_snippets_load_with_their_config(number: int, tmp_path: Path) -> None:
    import tomllib

    assert len(SNIPPETS) == len(NAMES)
    base = size(NAMES[number]).config
    overrides = [
        f"{section}.{key}={value}" for section, keys in tomllib.loads(SNIPPETS[number]).items()
        for key, value in keys.items()
    ]  # fmt: skip
    source = "cluster" if NAMES[number] == "spot" else str(SIZES / f"{NAMES[number]}.toml")
    assert load_config(source, overrides) != base


@pytest.mark.parametrize("name", NAMES)
def test_actors_fit_the_nodes(name: str) -> None:
    found = size(name)
    rollout, learner = found.config.rollout, found.config.learner
    assert gpus_asked(rollout, learner) <= sum(nodes.count * nodes.gpus for nodes in found.nodes)
    assert cpus_asked(rollout, learner) <= sum(nodes.count * nodes.cpus for nodes in found.nodes)


def qwen3(folder: Path, name: str) -> Path:
    hidden, layers, heads, feed_forward, tied = QWEN3[name]
    facts: dict[str, Any] = {
        "model_type": "qwen3", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": feed_forward, "vocab_size": 151936,
        "tie_word_embeddings": tied,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(facts))
    return folder


@pytest.mark.parametrize("name", QWEN3)
def test_the_memory_table_is_the_programs_estimate(name: str, tmp_path: Path) -> None:
    path = qwen3(tmp_path, name)
    for column, changes in enumerate(((), ("policy.use_peft=false", "policy.dtype=float32"))):
        shown = [float(text) for text in rows("model")[name][column].split(", ")]
        for value, processes in zip(shown, (1, 4, 8), strict=True):
            config = load_config("cluster", [f"policy.path={path}", f"learner.processes={processes}", *changes])
            assert value == pytest.approx(learner_estimate(config).total / GIB, abs=0.06)
    node = size("one_node")
    config = load_config(str(SIZES / "one_node.toml"), [f"policy.path={path}"])
    assert needed_bytes(config) / GIB < node.nodes[0].memory_gib
