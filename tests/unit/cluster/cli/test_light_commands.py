"""What a command can tell without the engine, torch or Ray, it tells before it imports them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from cluster.configs.loader import dump_config
from cluster.configs.schema import Config
from cluster.configs.shipped import shipped_configs
from opponents.population.population import Population
from tests.paths import ROOT

#: Each takes from a third of a second to several seconds to import.
HEAVY = (
    *("torch", "ray", "transformers", "diplomacy", "sklearn", "scipy", "plotly", "redis", "peft", "vllm", "trl"),
    *("prometheus_client", "httpx2", "pandas", "aiohttp", "grafana_foundation_sdk", "starlette", "uvicorn"),
)
FOREIGN_WORDS = re.compile(r"traceback|input should|pydantic|valid(ation)? ", re.IGNORECASE)

#: (command, exit code, what it says); the commands of one list run one after another in one process.
COMMANDS = {
    "help": [
        ("", 2, "population"),
        ("--help", 0, "evaluate"),
        ("--version", 0, "entente 0."),
        ("train --help", 0, "specialists"),
        ("train --keys", 0, "learning_rate"),
        ("population", 2, "retire"),
    ],
    "configs": [
        ("train nonexistent", 2, "shipped configs: beat_dumbbot, "),
        ("train", 2, "name a config to train from"),
        ("train laptop --set bad.key=1", 2, "--set bad.key: bad: there is no such section"),
        ("train laptop --set learner.learning_rate=abc", 2, "--set learner.learning_rate=abc: give a number above 0"),
        ("train --resume --run-dir nowhere", 2, "no run to resume in nowhere"),
        ("imitate nonexistent --out m", 2, "no config file nonexistent"),
        ("doctor nonexistent", 2, "no config file nonexistent"),
        ("doctor laptop --set learner.updates=0", 2, "--set learner.updates=0: give a whole number from 1"),
    ],
    "players": [
        ("play --out g.json --seat FRANKREICH=dumbbot", 2, "there is no power 'FRANKREICH'"),
        ("play --out g.json --seat FRANCE=nobody", 2, "'nobody' is neither a bot (dumbbot, "),
        ("play --out g.json --seat FRANCE=empty", 2, "empty has no config.json"),
        ("play --out g.json --seat FRANCE=remote:x --config smoke", 2, "no remote is called 'x'"),
        ("play --out g.json --config nonexistent", 2, "no config file nonexistent"),
        ("play --out none/g.json", 2, "there is no folder none"),
        ("play --seat FRANCE=dumbbot", 2, "--out is missing: name the file that the game is saved to, or"),
        ("play --out g.json --seat FRANCE=person", 2, "a person plays in the browser: add --web"),
        ("play --out g.json --run run", 2, "are options of --web"),
        (
            "play --web --out g.json",
            2,
            "--out, --html, --show-prompts, --draw-votes, --press and --decisions are of games without --web",
        ),
        ("play --web --host 0.0.0.0", 2, "if you mean it, add --allow-network"),
        ("play --web --seat FRANCE=nobody", 2, "'nobody' is neither a bot (dumbbot, "),
        ("play --web --player mine", 2, "--player 'mine' is not NAME=PATH"),
        ("play --web --player dumbbot=greedy", 2, "two players are called 'dumbbot'"),
        ("play --web --player mine=empty", 2, "empty has no config.json"),
        ("play --web --run nowhere", 2, "nowhere"),
        ("play --web --until 1800", 2, "--until: '1800' is neither a year"),
        ("evaluate nonexistent", 2, "'nonexistent' is neither a bot"),
        ("scenarios list --family crisis", 0, "14 scenarios"),
        ("scenarios run nobody", 2, "'nobody' is neither a bot"),
        ("evaluate random --against nobody", 2, "'nobody' is neither a bot"),
        ("ladder nobody", 2, "'nobody' is neither a bot"),
        ("ladder --against nobody", 2, "'nobody' is neither a bot"),
        ("ladder --against random,greedy", 2, "--against names the one player"),
        ("ladder --until 1800", 2, "--until: '1800' is neither a year"),
        ("ladder --html none/ladder.html", 2, "there is no folder none"),
        ("ladder a b c d e f g h", 2, "8 players do not fit at a table of 7"),
    ],
    "population": [
        ("population list run", 0, "bot/random"),
        ("population list nowhere", 2, "nowhere holds no run with a population"),
        ("population show run policy/wrong", 2, "has no member 'policy/wrong'"),
        ("population add nonexistent --to run", 2, "there is no folder nonexistent"),
        ("population add dumbbot --to run", 0, "bot/dumbbot joined run"),
        ("population add remote:x --to run", 2, "no remote is called 'x'"),
        ("population add run --member policy/wrong --to run", 2, "has no member 'policy/wrong'"),
        ("population add run --country NARNIA --to run", 2, "there is no country 'NARNIA'"),
        ("population add model --id taken --to run", 2, "already has a member 'policy/taken'"),
        ("population promote run --checkpoint 9", 2, "run has no checkpoint 9"),
        ("population retire run policy/wrong", 2, "has no member 'policy/wrong'"),
        ("population retire run bot/dumbbot", 0, "bot/dumbbot is retired"),
        ("population rate run --against nobody", 2, "'nobody' is neither a bot"),
        ("population rate nowhere", 2, "no run in nowhere"),
    ],
    "folders": [
        ("groups audit nowhere", 2, "nowhere is no run"),
        ("groups audit run", 2, "run has no audit records"),
        ("groups study nowhere", 2, "nowhere is not a folder"),
        ("export nowhere", 2, "no run in nowhere"),
        ("export nowhere --decisions", 2, "no run in nowhere"),
        ("export run --country NARNIA", 2, "there is no country 'NARNIA'"),
        ("report nowhere", 2, "nowhere holds no finished run"),
        ("report nowhere.json", 2, "nowhere.json cannot be read"),
        ("doctor --run nowhere", 2, "there is no run in nowhere"),
        ("buffer inspect nowhere", 2, "no run in nowhere"),
        ("bench --only nobody", 2, "no benchmark is called 'nobody'"),
    ],
}

SCRIPT = """
import contextlib, io, json, sys
from cluster.cli.app import main

found = []
for line in json.loads(sys.argv[1]):
    sys.argv = ["entente", *line.split()]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            code = end.code
    found.append((line, code, said.getvalue(), sorted({name.partition(".")[0] for name in sys.modules})))
print(json.dumps(found))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    (run / "population").mkdir(parents=True)
    (run / "config.toml").write_text(dump_config(Config()))
    population = Population(run / "population.json")
    population.add_bot("random")
    save_file({"w": np.zeros(2, np.float32)}, run / "population" / "taken.safetensors")
    member = population.add_snapshot(run / "population" / "taken.safetensors", version=2)
    population.save()
    document = json.loads((run / "population.json").read_text())
    document["members"][1] |= {"id": "policy/taken", "source": "elsewhere"}
    (run / "population.json").write_text(json.dumps(document))
    assert member.id == "policy/v2"
    (tmp_path / "empty").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("kind", COMMANDS)
def test_light_commands_import_nothing_heavy(kind: str, folder: Path) -> None:
    lines = [line for line, _, _ in COMMANDS[kind]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(lines)],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for (line, code, said, modules), (_, expected, text) in zip(json.loads(done.stdout), COMMANDS[kind], strict=True):
        assert (code, text in " ".join(said.split())) == (expected, True), (line, said)
        assert not FOREIGN_WORDS.search(said), (line, said)
        assert "cluster" in modules
        imported = sorted(set(HEAVY) & set(modules))
        assert not imported, line


def test_the_help_of_train_describes_every_shipped_config(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from cluster.cli.app import main

    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["entente", "train", "--help"])
    with pytest.raises(SystemExit):
        main()
    text = " ".join(capsys.readouterr().out.split())
    assert len(shipped_configs()) >= 7
    for name, comment in shipped_configs().items():
        assert len(comment) > 20
        assert f"{name}: {comment.replace('`', '')}" in text


def test_the_version_names_the_commit_of_a_checkout_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from cluster.cli.app import main
    from cluster.runs import provenance

    for commit, expected in (("0123456789ab+", r"entente \d+\.\d+\.\S+ \(commit 0123456789ab\+\)"),
                             (provenance.UNKNOWN, r"entente \d+\.\d+\.\S+")):  # fmt: skip
        monkeypatch.setattr(provenance, "commit", lambda commit=commit: commit)
        monkeypatch.setattr(sys, "argv", ["entente", "--version"])
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code
        assert re.fullmatch(expected, capsys.readouterr().out.strip())
